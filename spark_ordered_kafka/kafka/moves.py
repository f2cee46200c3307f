"""How far the brokers have come with copying replicas, also for other tools."""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments

_TIMEOUT = 5.0


@dataclass(frozen=True)
class Moves:
    """Reassignments in progress: how many ``partitions``, and of their new replicas the bytes that there are and will be.

    What will be is the size of the leader's log now, so both grow while records come in.
    """

    partitions: int = 0
    copied_bytes: int = 0
    total_bytes: int = 0


def moves(admin: KafkaAdmin) -> Moves:
    """The reassignments of the whole cluster (ListPartitionReassignments), measured by DescribeLogDirs.

    A partition without a leader counts, but its bytes are not known. Raises RequestError where the brokers refuse to
    say, UnavailableError when one does not answer.
    """
    found = Reassignments(admin.requests, timeout=_TIMEOUT).all_ongoing()
    if not found:
        return Moves()
    alive = {broker.id for broker in admin.brokers()}
    leaders = {
        (topic, row.partition): row.leader
        for topic, description in admin.describe_topics(sorted({topic for topic, _ in found})).items()
        for row in description.partitions
        if row.leader != NO_LEADER
    }
    added = [(*tp, broker) for tp, one in found.items() if tp in leaders for broker in one.adding]
    led = {(topic, p): (topic, p, leaders[topic, p]) for topic, p, _ in added}
    # One that is down has nothing yet that could be used.
    asked = {*led.values(), *(replica for replica in added if replica[2] in alive)}
    sizes = LogDirs(admin.requests, timeout=_TIMEOUT).sizes(asked)
    copied = total = 0
    for replica in added:
        size = sizes.get(led[replica[:2]], 0)
        total += size
        copied += min(size, sizes.get(replica, 0))
    return Moves(len(found), copied, total)
