"""Plans the partition change of a request, or refuses it. PURE."""

from __future__ import annotations

from dataclasses import replace

from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.state.change import AnyChange, refuse_second
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.updates import updated


def plan_count(
    topic: str,
    *,
    change_id: str,
    target: int,
    source: int,
    initial: int,
    existing: int,
    ordered: bool,
    force: bool,
    pending: AnyChange | None,
    now: float,
) -> Change:
    """The change to ``target`` undeleted partitions.

    ``source`` and ``initial`` are the undeleted and the initial partition count, ``existing`` the Kafka partitions.
    Raises RequestError: PARTITION_CHANGE_IN_PROGRESS or INVALID_PARTITIONS.
    """
    refuse_second(topic, pending)
    if target < initial:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"partition_count of topic {topic!r} has the value {target}: it cannot go below the initial partition "
            f"count {initial}",
        )
    if target == source:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"partition_count of topic {topic!r} has the value {target}: the topic has {source} partitions "
            "already, nothing is to be changed",
        )
    return Change(
        id=change_id,
        topic=topic,
        kind="expand" if target > source else "shrink",
        source=source,
        target=target,
        existing=existing,
        started_at=now,
        force=force,
        ordered=ordered,
    )


def plan_order(
    topic: str,
    *,
    change_id: str,
    ordered_delivery: bool,
    count: int,
    existing: int,
    force: bool,
    pending: AnyChange | None,
    now: float,
) -> Change:
    """The change that switches ordered delivery on or off, with ``count`` undeleted partitions before and after.

    Both fence writers, since a writer keeps its layout until it is fenced. Raises RequestError
    PARTITION_CHANGE_IN_PROGRESS.
    """
    refuse_second(topic, pending)
    return Change(
        id=change_id,
        topic=topic,
        kind="order" if ordered_delivery else "unorder",
        source=count,
        target=count,
        existing=existing,
        started_at=now,
        force=force,
    )


def with_cancel(topic: str, record: TopicRecord, change_id: str) -> TopicRecord:
    """The record with the request that its change is rolled back; raises RequestError when that has ended."""
    if not isinstance(record.change, Change) or record.change.id != change_id:
        last = record.last_change
        if last is not None and last.id == change_id and last.outcome != "done":
            return record  # rolled back meanwhile, as requested
        # Its commit was done although no answer arrived.
        raise invalid_request(
            f"change {change_id} of topic {topic!r} has ended: it cannot be cancelled any more"
        )
    return updated(record, change=replace(record.change, cancel_requested=True))
