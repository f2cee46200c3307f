"""Where replicas end, followers included (ListOffsets as Kafka's ``ReplicaVerificationTool`` asks it)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from kafka.protocol.consumer import OffsetSpec

from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.leaders import list_offsets
from spark_ordered_kafka.kafka.requests import BrokerCalls, BrokerRequests, refusal
from spark_ordered_kafka.kafka.rows import ask_each, by_topic, chunks
from spark_ordered_kafka.kafka.values import PartitionId

# ListOffsetsRequest.DEBUGGING_REPLICA_ID: any replica answers, with its own log end offset, not the high watermark.
_ANY_REPLICA = -2
_WHAT = "read where replicas end"


@dataclass(frozen=True)
class BrokerEnds:
    """Log end offset of each replica of a broker that was asked about, or why it is not known.

    ``read_at`` is when the broker answered, as the clock says.
    """

    ends: Mapping[PartitionId, int | RequestError]
    read_at: float


class ReplicaEnds(BrokerCalls):
    """Log end offsets of one cluster's replicas. A broker that hangs takes the whole timeout, whatever the others answer.

    ``clock``: what ``read_at`` goes by; runs on the network loop.
    """

    def __init__(self, requests: BrokerRequests, clock: Callable[[], float], *, timeout: float) -> None:
        super().__init__(requests, timeout)
        self._clock = clock

    def read(
        self, replicas: Mapping[int, Collection[PartitionId]]
    ) -> dict[int, BrokerEnds | OrderedKafkaError]:
        """Of each broker's replicas, all brokers asked at the same time.

        A broker that has no answer has its error instead: RequestError BROKER_NOT_AVAILABLE if it is not alive,
        UnavailableError if it does not answer in time.
        """
        questions = {broker: partial(self._read, broker, tps) for broker, tps in replicas.items()}
        return ask_each(self._requests, questions, self._timeout, _WHAT)

    async def _read(self, broker: int, tps: Collection[PartitionId], deadline: float) -> BrokerEnds:
        ends: dict[PartitionId, int | RequestError] = {}
        for chunk in chunks(tps):
            rows = {topic: [(p, -1) for p in partitions] for topic, partitions in by_topic(chunk).items()}
            request = list_offsets(rows, OffsetSpec.LATEST, replica_id=_ANY_REPLICA)
            response = await self._requests.send(request, broker, deadline)
            for found in response.topics:
                for row in found.partitions:
                    tp = (found.name, row.partition_index)
                    what = f"{_WHAT}: {found.name}-{row.partition_index} on broker {broker}"
                    ends[tp] = row.offset if row.error_code == 0 else refusal(row.error_code, None, what)
        return BrokerEnds(ends, self._clock())
