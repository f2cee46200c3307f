"""Which brokers have a partition's replicas, and changing that (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.leaders import ask_controller
from spark_ordered_kafka.kafka.requests import BrokerCalls, broker_error
from spark_ordered_kafka.kafka.rows import Answer, answer_of, ask_rows, by_topic, chunks
from spark_ordered_kafka.kafka.values import PartitionId, Reassignment


class Reassignments(BrokerCalls):
    """Replica sets of one cluster's partitions."""

    def start(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Let partitions have their replicas on these brokers, preferred leader first. Kafka carries it out by itself.

        Asking twice for the same does no harm.

        Raises:
            RequestError: Kafka refused one; names it. Others of the partitions may have been started.
            UnavailableError: not done in time.
        """
        for error in self.alter({(topic, p): brokers for p, brokers in sorted(replicas.items())}).values():
            raise error

    def alter(self, targets: Mapping[PartitionId, Sequence[int] | None]) -> dict[PartitionId, RequestError]:
        """Start or replace reassignments, or cancel them; those that Kafka refused (AlterPartitionReassignments).

        Kafka carries out what it took by itself. Asking twice for the same does no harm, but what was cancelled already
        is refused the second time: then the first answer was lost.

        Args:
            targets: (topic, partition) -> brokers that are to have the replicas, preferred leader first; None: those that
                had them before the reassignment in progress. If that one has replaced another, Kafka counts what the
                other was adding among them.

        Returns:
            What failed: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT (as for a broker that is not registered),
            NO_REASSIGNMENT_IN_PROGRESS for a None, REQUEST_TIMED_OUT, ...

        Raises:
            RequestError: the cluster may not be altered.
            UnavailableError: not done in time; some may have been started.
        """
        ask = partial(self._alter, targets)
        return ask_rows(self._requests, list(targets), ask, self._timeout, "reassign partitions")

    def ongoing(self, topic: str, partitions: Collection[int]) -> dict[int, Reassignment]:
        """Those of ``partitions`` that are being reassigned.

        Raises:
            RequestError: they may not be listed.
            UnavailableError: no answer in time.
        """
        asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        found: dict[PartitionId, Reassignment] = {}
        for chunk in chunks(sorted(partitions)):
            attempt = partial(self._ongoing, [asked(name=topic, partition_indexes=chunk)])
            found |= self._retry(attempt, f"list the reassignments of topic {topic!r}")
        return {partition: reassignment for (_, partition), reassignment in found.items()}

    def all_ongoing(self) -> dict[tuple[str, int], Reassignment]:
        """(topic, partition) -> reassignment, of all in progress in the cluster. Raises as :meth:`ongoing`."""
        return self._retry(partial(self._ongoing, None), "list the reassignments")

    async def _alter(
        self,
        targets: Mapping[PartitionId, Sequence[int] | None],
        tps: Sequence[PartitionId],
        deadline: float,
    ) -> dict[PartitionId, Answer]:
        asked = AlterPartitionReassignmentsRequest.ReassignableTopic

        def row(tp: PartitionId) -> Any:
            brokers = targets[tp]
            replicas = None if brokers is None else list(brokers)
            return asked.ReassignablePartition(partition_index=tp[1], replicas=replicas)

        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=[
                asked(name=topic, partitions=[row((topic, p)) for p in partitions])
                for topic, partitions in by_topic(tps).items()
            ],
        )
        response = await self._sent(request, deadline)
        return {
            (tp := (found.name, row.partition_index)): answer_of(tp, row.error_code, row.error_message)
            for found in response.responses
            for row in found.partitions
        }

    async def _sent(self, request: Any, deadline: float) -> Any:
        response = await ask_controller(self._requests, request, deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code, response.error_message)
        return response

    async def _ongoing(
        self, topics: list[Any] | None, deadline: float
    ) -> dict[tuple[str, int], Reassignment]:
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        response = await self._sent(request, deadline)
        return {
            (found.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for found in response.topics
            for row in found.partitions
        }

    @property
    def _timeout_ms(self) -> int:
        return int(1000 * self._timeout)
