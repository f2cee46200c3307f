"""Where replicas end, followers included (ListOffsets as Kafka's ``ReplicaVerificationTool`` asks it)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafka.protocol.consumer import ListOffsetsRequest, OffsetSpec

from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.requests import BrokerRequests, refusal
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


class ReplicaEnds:
    """Log end offsets of one cluster's replicas, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        clock: what ``read_at`` goes by; runs on the network loop.
        timeout: seconds for each call. A broker that hangs takes all of them, whatever the others answer.
    """

    def __init__(self, requests: BrokerRequests, clock: Callable[[], float], *, timeout: float) -> None:
        self._requests = requests
        self._clock = clock
        self._timeout = timeout

    def read(
        self, replicas: Mapping[int, Collection[PartitionId]]
    ) -> dict[int, BrokerEnds | OrderedKafkaError]:
        """Of each broker's replicas, all brokers asked at the same time.

        A broker that has no answer has its error instead: RequestError BROKER_NOT_AVAILABLE if it is not alive,
        UnavailableError if it does not answer in time.
        """
        questions = {broker: partial(self._read, broker, places) for broker, places in replicas.items()}
        return ask_each(self._requests, questions, self._timeout, _WHAT)

    async def _read(self, broker: int, places: Collection[PartitionId], deadline: float) -> BrokerEnds:
        ends: dict[PartitionId, int | RequestError] = {}
        for chunk in chunks(places):
            response = await self._requests.send(_request(chunk), broker, deadline)
            for found in response.topics:
                for row in found.partitions:
                    place = (found.name, row.partition_index)
                    what = f"{_WHAT}: {found.name}-{row.partition_index} on broker {broker}"
                    ends[place] = row.offset if row.error_code == 0 else refusal(row.error_code, None, what)
        return BrokerEnds(ends, self._clock())


def _request(places: Sequence[PartitionId]) -> ListOffsetsRequest:
    asked = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=_ANY_REPLICA,
        isolation_level=0,
        topics=[
            asked(
                name=topic,
                partitions=[
                    asked.ListOffsetsPartition(
                        partition_index=partition, current_leader_epoch=-1, timestamp=OffsetSpec.LATEST
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in by_topic(places).items()
        ],
    )
