"""Which brokers have a partition's replicas, and changing that (KIP-455)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from spark_ordered_kafka.kafka.leaders import controller_of
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error

# The brokers' controller takes at most 10,000 changes of its metadata at once.
_CHUNK = 1000


@dataclass(frozen=True)
class Reassignment:
    """One that goes on; ``replicas`` are all of now, ``adding`` those of them that are not in sync yet."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Reassignments:
    """Replica sets of one cluster's partitions, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        timeout: seconds for each call.
    """

    def __init__(self, requests: BrokerRequests, *, timeout: float = 30.0) -> None:
        self._requests = requests
        self._timeout = timeout

    def start(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Let partitions have their replicas on these brokers, preferred leader first. Kafka goes on with it by itself.

        Asking twice for the same does no harm.

        Raises:
            RequestError: Kafka refused one; names it.
            UnavailableError: not done in time.
        """
        what = f"reassign partitions of topic {topic!r}"
        partitions = sorted(replicas)
        for first in range(0, len(partitions), _CHUNK):
            chunk = {p: replicas[p] for p in partitions[first : first + _CHUNK]}
            self._requests.retry(partial(self._start, topic, chunk), time.monotonic() + self._timeout, what)

    def ongoing(self, topic: str, partitions: Collection[int]) -> dict[int, Reassignment]:
        """Those of ``partitions`` that are being reassigned.

        Raises:
            RequestError: they may not be listed.
            UnavailableError: no answer in time.
        """
        if not partitions:
            return {}
        asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        found = self._requests.retry(
            partial(self._ongoing, [asked(name=topic, partition_indexes=sorted(partitions))]),
            time.monotonic() + self._timeout,
            f"list the reassignments of topic {topic!r}",
        )
        return {partition: reassignment for (_, partition), reassignment in found.items()}

    def all_ongoing(self) -> dict[tuple[str, int], Reassignment]:
        """(topic, partition) -> reassignment, of all that go on in the cluster. Raises as :meth:`ongoing`."""
        return self._requests.retry(
            partial(self._ongoing, None), time.monotonic() + self._timeout, "list the reassignments"
        )

    async def _start(self, topic: str, replicas: Mapping[int, Sequence[int]], deadline: float) -> None:
        asked = AlterPartitionReassignmentsRequest.ReassignableTopic
        rows = [
            asked.ReassignablePartition(partition_index=partition, replicas=list(brokers))
            for partition, brokers in replicas.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=[asked(name=topic, partitions=rows)]
        )
        response = await self._requests.send(
            request, await controller_of(self._requests, deadline), deadline, timeout=self._timeout
        )
        if response.error_code != 0:
            raise broker_error(response.error_code, response.error_message)
        for row in (row for found in response.responses for row in found.partitions):
            if row.error_code != 0:
                raise broker_error(
                    row.error_code, f"partition {row.partition_index}: {row.error_message or 'refused'}"
                )

    async def _ongoing(
        self, topics: list[Any] | None, deadline: float
    ) -> dict[tuple[str, int], Reassignment]:
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        response = await self._requests.send(
            request, await controller_of(self._requests, deadline), deadline, timeout=self._timeout
        )
        if response.error_code != 0:
            raise broker_error(response.error_code, response.error_message)
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
