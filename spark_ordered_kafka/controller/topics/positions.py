"""Positions of a consumer group in topics under management, and what its blocked partitions wait for."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.topics import layout_history
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.groups import CommittedOffset, ConsumerGroups, GroupDescription, GroupMember
from spark_ordered_kafka.kafka.ids import LEDGERS, id_prefix
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.ordering import LayoutHistory, blockers
from spark_ordered_kafka.ordering.handover import UNKNOWN_EPOCH, Release, released

_log = logging.getLogger(__name__)
# Kafka has no such topic, or another one of that name: positions in it are meaningless.
_DELETED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_TRUNCATED)


class GroupPositions:
    """Positions of consumer groups (KIP-253's ConsumerGroupPosition). ``timeout`` (seconds) is for each call to Kafka."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, topics: Topics, timeout: float) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics
        self._groups = ConsumerGroups(admin.requests, timeout=timeout)

    def groups(self) -> list[schemas.GroupSummary]:
        """All consumer groups of the cluster, by name, but the ledgers of writers, which read nothing."""
        listed = self._groups.listed(without=LEDGERS)
        return [schemas.GroupSummary(group=group, state=state) for group, state in listed.items()]

    def describe(self, group: str, topic: str | None = None) -> schemas.GroupPositions:
        """The group's positions in ``topic``; None: in all managed topics that it has committed for, or is assigned.

        Raises RequestError: GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION for a topic that is not under management,
        INVALID_REQUEST for a group whose offsets are not positions.
        """
        # librdkafka takes names as C strings, and would describe the part before the NUL.
        if not group or "\0" in group:
            raise invalid_request(f"group has the value {group!r}: name a consumer group")
        if topic is not None:
            self._topics.record(topic)
        found = self._groups.describe(group)
        if found is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r} does not exist")
        if topic is not None:
            if _is_ledger(group, topic):
                raise invalid_request(
                    f"group {group!r} is the ledger of a writer of topic {topic!r}: it counts transactions, and "
                    "reads nothing"
                )
            rows = [self._positions(topic, found)]
        else:
            rows = self._all_positions(group, found)
        return schemas.GroupPositions(group=group, state=found.state, topics=rows)

    def _all_positions(self, group: str, found: GroupDescription) -> list[schemas.TopicPositions]:
        known = found.committed.keys() | {topic for topic, _ in found.members}
        rows = []
        for topic in self._znodes.topics():
            if topic not in known or _is_ledger(group, topic):
                continue
            try:
                rows.append(self._positions(topic, found))
            except RequestError as error:
                if error.code not in _DELETED:
                    raise
                _log.info("positions of group %s without a topic: %s", group, error)
        return rows

    def _positions(self, topic: str, found: GroupDescription) -> schemas.TopicPositions:
        # Read positions first, then log ends, and the layout last, so that it covers all records below the ends.
        view, _ = self._topics.view(topic, lambda change: change)
        led = [row.partition for row in view.partitions if row.leader != NO_LEADER]
        starts = self._admin.log_starts(topic, led)
        ends = self._admin.stable_ends(topic, led)
        layouts = self._topics.layouts(topic, 0)
        committed = of_topic(found.committed.get(topic, {}), layouts.topic_id)
        waits = _waits(layouts, {p: starts.get(p, 0) for p in range(len(view.partitions))}, committed)
        return schemas.TopicPositions(
            topic=topic,
            topic_id=layouts.topic_id,
            layout_epoch=layouts.layouts[-1].epoch,
            ordered_delivery=layouts.ordered_delivery,
            partitions=[
                _position(
                    row,
                    committed.get(row.partition),
                    (starts[row.partition], ends[row.partition]) if row.partition in ends else None,
                    found.members.get((topic, row.partition)),
                    waits.get(row.partition, []),
                )
                for row in view.partitions
            ],
        )


def of_topic(committed: Mapping[int, CommittedOffset], topic_id: str) -> dict[int, CommittedOffset]:
    """What was committed of the topic of that id, and not of a deleted one of its name (D-431)."""
    return {p: one for p, one in committed.items() if Release.parse(one.offset, one.metadata).is_of(topic_id)}


def _is_ledger(group: str, topic: str) -> bool:
    return group.startswith(id_prefix(topic))


def _waits(
    layouts: schemas.LayoutHistoryView, starts: Mapping[int, int], committed: Mapping[int, CommittedOffset]
) -> dict[int, list[tuple[int, int]]]:
    """Blocked partition -> positions it waits for. Empty for a topic without ordered delivery."""
    if not layouts.ordered_delivery:
        return {}
    history = layout_history(layouts)
    return blockers(history, _gate_positions(history, starts, committed))


def _gate_positions(
    history: LayoutHistory, starts: Mapping[int, int], committed: Mapping[int, CommittedOffset]
) -> dict[int, int]:
    """The group's positions for the gate: the log start where it has committed nothing, or less than that.

    Ordered consumers commit the layout of each offset as well; other consumers hand over nothing.
    """
    releases = {
        p: Release.parse(max(starts.get(p, 0), one.offset), one.metadata) for p, one in committed.items()
    }
    if all(release.layout_epoch == UNKNOWN_EPOCH for release in releases.values()):
        return {**starts, **{p: release.offset for p, release in releases.items()}}
    return {**starts, **released(history, releases)}


def _position(
    partition: schemas.PartitionView,
    committed: CommittedOffset | None,
    log: tuple[int, int] | None,
    member: GroupMember | None,
    waits: list[tuple[int, int]],
) -> schemas.PartitionPosition:
    position = None if committed is None else committed.offset
    lag = None
    if log is not None:
        start, end = log
        lag = max(0, end - (start if position is None else max(start, position)))
    return schemas.PartitionPosition(
        partition=partition.partition,
        status=partition.status,
        position=position,
        log_end=None if log is None else log[1],
        lag=lag,
        member=None if member is None else view(schemas.GroupMember, member),
        waits_for=[schemas.RequiredPosition(partition=other, offset=offset) for other, offset in waits],
    )
