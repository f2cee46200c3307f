"""What lies in the topic of a history, and what was deleted of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from spark_ordered_kafka.kafka.clients import wait_for
from tests.chaos.outcome import sorted_ids
from tests.chaos.servers import ChaosCluster
from tests.chaos.writers import RecordId
from tests.servers import TIMEOUT
from tests.streams import misrouted, raw_records


class TopicLog:
    """The committed records of a topic. ``where`` has the partition and offset of each that was ever seen."""

    def __init__(self, cluster: ChaosCluster, topic: str) -> None:
        self.where: dict[RecordId, tuple[int, int]] = {}
        self._cluster, self._topic = cluster, topic
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
        self._begins: dict[int, int] = {}

    def begin(self, partition: int) -> int:
        """The offset below which records of a partition were deleted."""
        return self._begins.get(partition, 0)

    def look(self) -> dict[int, int]:
        """Note where every committed record lies, and return the last stable offsets from before that."""
        ends = self._cluster.retried(self._ends)
        for message in raw_records(self._cluster, self._topic, len(ends)):
            record = RecordId.parse(cast(bytes, message.value()))
            place = (cast(int, message.partition()), cast(int, message.offset()))
            assert self.where.setdefault(record, place) == place, (
                f"{record} was written twice: {place} and {self.where[record]}"
            )
        return ends

    def _ends(self) -> dict[int, int]:
        count = len(self._admin.list_topics(self._topic, TIMEOUT).topics[self._topic].partitions)
        futures = self._admin.list_offsets(
            {TopicPartition(self._topic, partition): OffsetSpec.latest() for partition in range(count)},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=TIMEOUT,
        )
        doing = f"asking for the ends of {self._topic}"
        return {tp.partition: wait_for(future, TIMEOUT, doing).offset for tp, future in futures.items()}

    def delete(self, begins: Mapping[int, int]) -> None:
        """Delete the records of partitions below these offsets."""
        wanted = [TopicPartition(self._topic, partition, begin) for partition, begin in begins.items()]
        if wanted:
            self._cluster.retried(lambda: self._delete(wanted))
        self._begins |= begins

    def _delete(self, wanted: list[TopicPartition]) -> None:
        for future in self._admin.delete_records(wanted).values():
            wait_for(future, TIMEOUT, f"deleting records of {self._topic}")

    def check(self, written: Collection[RecordId]) -> None:
        """Every record was written once, to its key's partition."""
        missing, unknown = set(written) - set(self.where), set(self.where) - set(written)
        assert not missing, f"{len(missing)} committed records are not in the log, as {sorted_ids(missing)}"
        assert not unknown, (
            f"{len(unknown)} records are in the log but not committed, as {sorted_ids(unknown)}"
        )
        wrong = self._cluster.retried(lambda: misrouted(self._cluster, self._topic))
        assert wrong == [], wrong[:5]
