"""A real unclean leader election: a partition's log loses what only its old leader had (KIP-320)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import LogEnd, PartitionDescription
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT

CONFIG = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
"""What a topic needs to be truncated; its partitions need two replicas."""


@dataclass(frozen=True)
class Truncation:
    """Log end and leader epoch of a partition, as its old and as its new leader told them."""

    before: LogEnd
    after: LogEnd


def write(cluster: LocalCluster, topic: str, partition: int, records: int = 10) -> None:
    """Write records without a key, acknowledged by all replicas in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(records):
        producer.produce(topic, value=str(number).encode(), partition=partition)
    assert producer.flush(TIMEOUT) == 0


class UncleanElection:
    """The steps of :func:`truncate` one by one, for a partition with two replicas that are in sync."""

    def __init__(self, cluster: LocalCluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)
        self._await("two replicas in sync", lambda row: row.leader >= 0 and len(row.isr) == 2)
        row = self._row()
        assert row is not None
        self._leader = row.leader
        (self._follower,) = set(row.isr) - {row.leader}

    def stop_follower(self) -> None:
        """From now on only the leader has what is written."""
        self._cluster.stop(f"broker-{self._follower}")
        self._await("only the leader in sync", lambda row: row.isr == (self._leader,))

    def stop_leader(self) -> LogEnd:
        """The partition is left without a leader; the log end that is lost."""
        end = self.log_end()
        self._cluster.kill(f"broker-{self._leader}")
        self._await("no leader", lambda row: row.leader < 0)
        return end

    def elect_follower(self) -> LogEnd:
        """The replica that lacks the newest records becomes leader; its log end."""
        self._cluster.start(f"broker-{self._follower}")
        self._await("the follower as leader", lambda row: row.leader == self._follower)
        return self.log_end()

    def restore(self) -> None:
        """Bring the old leader back as a follower, which cuts its log to that of the new leader."""
        self._cluster.start(f"broker-{self._leader}")
        self._await("two replicas in sync", lambda row: len(row.isr) == 2)
        self._admin.close()

    def log_end(self) -> LogEnd:
        """As the current leader tells it."""
        return self._admin.log_ends(self._topic, [self._partition])[self._partition]

    def _row(self) -> PartitionDescription | None:
        topic = self._admin.describe_topics([self._topic]).get(self._topic)
        return None if topic is None else topic.partitions[self._partition]

    def _await(self, what: str, reached: Callable[[PartitionDescription], bool]) -> None:
        deadline = time.monotonic() + 2 * TIMEOUT
        while (row := self._row()) is None or not reached(row):
            assert time.monotonic() < deadline, f"{self._topic}-{self._partition} has not {what}: {row}"
            time.sleep(0.05)


def truncate(
    cluster: LocalCluster,
    topic: str,
    partition: int,
    *,
    alone: Callable[[], object] | None = None,
) -> Truncation:
    """Let a partition lose what ``alone`` has written (ten records, by default) while only its leader was up.

    The topic has the configuration :data:`CONFIG` and two replicas; the cluster has three brokers, so that the internal
    topics stay available. Afterwards all brokers run.
    """
    election = UncleanElection(cluster, topic, partition)
    election.stop_follower()
    if alone is None:
        write(cluster, topic, partition)
    else:
        alone()
    before = election.stop_leader()
    after = election.elect_follower()
    election.restore()
    assert after.offset < before.offset, "the log has lost nothing"
    return Truncation(before, after)
