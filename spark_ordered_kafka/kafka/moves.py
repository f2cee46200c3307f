"""How far the brokers have come with copying replicas, whoever asked for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.logs import PartitionLogs
from spark_ordered_kafka.kafka.reassignments import Reassignments

_TIMEOUT = 5.0


@dataclass(frozen=True)
class Moves:
    """Reassignments that go on: how many ``partitions``, and of their new replicas the bytes that there are and will be.

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
    by_topic: dict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for (topic, partition), reassignment in found.items():
        by_topic[topic][partition] = reassignment.adding
    alive = {broker.id for broker in admin.brokers()}
    logs = PartitionLogs(admin.requests, timeout=_TIMEOUT)
    copied = total = 0
    for topic, description in admin.describe_topics(list(by_topic)).items():
        adding = by_topic[topic]
        leaders = {
            p.partition: p.leader
            for p in description.partitions
            if adding.get(p.partition) and p.leader != NO_LEADER
        }
        sizes = logs.sizes(topic, leaders) if leaders else {}
        for place in range(max(map(len, adding.values()), default=0)):
            brokers = {p: adding[p][place] for p in sizes if place < len(adding[p])}
            # One that is down has nothing yet that could be used.
            asked = {p: broker for p, broker in brokers.items() if broker in alive}
            there = logs.sizes(topic, asked) if asked else {}
            total += sum(sizes[p] for p in brokers)
            copied += sum(min(sizes[p], there.get(p, 0)) for p in asked)
    return Moves(len(found), copied, total)
