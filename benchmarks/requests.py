"""Reassignments through the controller, for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.errors import StaleMetadata

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionReassignment, ReassignmentRequest, ReassignmentView
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin

TIMEOUT = 600.0
"""Seconds for whatever is measured once."""

POLL = 0.02
"""Seconds between two looks at what goes on."""

Replicas = Mapping[int, Sequence[int]]
"""Partition -> brokers, preferred leader first."""


def start(controller: ControllerClient, topic: str, replicas: Replicas) -> int:
    """Reassign partitions of a topic, perhaps to more or fewer replicas; the id of the request.

    Raises:
        RequestError: a partition was refused.
    """
    rows = [PartitionReassignment(topic=topic, partition=p, replicas=list(b)) for p, b in replicas.items()]
    request = ReassignmentRequest(partitions=rows, allow_replication_factor_change=True)
    result = controller.reassign(request)
    if result.request_id is None:
        refused = [row for row in result.partitions if row.error_code != ErrorCode.NONE]
        # What was not started because of others says so by INVALID_REQUEST.
        bad = next((row for row in refused if row.error_code != ErrorCode.INVALID_REQUEST), refused[0])
        raise RequestError(ErrorCode(bad.error_code), bad.error_message or f"{topic}-{bad.partition}")
    return result.request_id


def await_end(controller: ControllerClient, request_id: int) -> ReassignmentView:
    """The request when it has ended.

    Raises:
        UnavailableError: it has not after ten minutes.
    """
    deadline = time.monotonic() + TIMEOUT
    while not (view := controller.reassignment(request_id)).complete:
        if time.monotonic() >= deadline:
            raise UnavailableError(f"reassignment {request_id} did not end within {TIMEOUT:g} s")
        time.sleep(POLL)  # as a user's program would
    return view


def await_done(controller: ControllerClient, request_id: int) -> None:
    """Wait until the request has done all it was to do; raises OrderedKafkaError if some of it failed."""
    view = await_end(controller, request_id)
    if view.state != "done":
        errors = {row.error_message for row in view.replicas if row.error_code != ErrorCode.NONE}
        raise OrderedKafkaError(f"reassignment {request_id} ended as {view.state}: {errors}")


def settle(admin: KafkaAdmin, topic: str, replicas: Replicas) -> None:
    """Wait until every broker shows that partitions of a topic have these replicas.

    Raises:
        UnavailableError: one does not after ten minutes.
    """
    requests, wanted = admin.requests, {p: list(brokers) for p, brokers in replicas.items()}

    async def check(deadline: float) -> None:
        brokers = await requests.broker_ids(deadline)
        views: list[Any] = await requests.gather(requests.metadata([topic], b, deadline) for b in brokers)
        for view in views:
            shown = {p.partition_index: p.replica_nodes for t in view.topics for p in t.partitions}
            if shown != wanted:
                raise StaleMetadata(f"a broker does not show all replicas of {topic!r}")

    requests.retry(check, time.monotonic() + TIMEOUT, f"see where the replicas of {topic!r} are")
