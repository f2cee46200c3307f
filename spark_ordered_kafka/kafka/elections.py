"""Electing the preferred leaders of partitions (KIP-460)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from kafka import errors as kafka_errors
from kafka.protocol.admin import ElectionType, ElectLeadersRequest

from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.leaders import ask_controller
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error
from spark_ordered_kafka.kafka.rows import Answer, answer_of, ask_rows, by_topic
from spark_ordered_kafka.kafka.values import PartitionId

_NOT_NEEDED = kafka_errors.ElectionNotNeededError.errno


def elect_preferred(
    requests: BrokerRequests, tps: Collection[PartitionId], timeout: float
) -> dict[PartitionId, RequestError]:
    """Let the first replica of each partition lead it, if it is in sync; those where that failed (ElectLeaders).

    One that leads already is no failure. Asking twice does no harm.

    Args:
        tps: (topic, partition), once each.
        timeout: seconds for each 1,000 of them.

    Returns:
        What failed: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, REQUEST_TIMED_OUT; UNKNOWN_SERVER_ERROR, whose
        message begins with PREFERRED_LEADER_NOT_AVAILABLE, where the first replica is away or not in sync.

    Raises:
        RequestError: the cluster may not be altered.
        UnavailableError: no answer in time; some may have been elected.
    """
    ask = partial(_elect, requests, int(1000 * timeout))
    return ask_rows(requests, list(tps), ask, timeout, "elect the preferred leaders")


async def _elect(
    requests: BrokerRequests, timeout_ms: int, tps: Sequence[PartitionId], deadline: float
) -> dict[PartitionId, Answer]:
    asked = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=ElectionType.PREFERRED,
        topic_partitions=[asked(topic=topic, partitions=p) for topic, p in by_topic(tps).items()],
        timeout_ms=timeout_ms,
    )
    response = await ask_controller(requests, request, deadline)
    if response.error_code != 0:
        raise broker_error(response.error_code)
    return {
        (tp := (found.topic, row.partition_id)): answer_of(
            tp, 0 if row.error_code == _NOT_NEEDED else row.error_code, row.error_message
        )
        for found in response.replica_election_results
        for row in found.partition_result
    }
