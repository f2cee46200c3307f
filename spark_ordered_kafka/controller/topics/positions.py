"""Positions of a consumer group in topics under management, and what its blocked partitions wait for."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.zk.records import UnreadableRecordError
from spark_ordered_kafka.controller.zk.session import ZooKeeperError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.groups import CommittedOffset, ConsumerGroups, GroupDescription, GroupMember
from spark_ordered_kafka.kafka.ids import LEDGERS, id_prefix
from spark_ordered_kafka.kafka.leader_logs import ready_ranges
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.values import USUAL_PROPAGATION
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
        self._timeout = timeout
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
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"consumer group {group!r} does not exist")
        if topic is not None:
            if _is_ledger(group, topic):
                raise invalid_request(
                    f"group {group!r} is the ledger of a writer of topic {topic!r}: it counts transactions, and "
                    "reads nothing"
                )
            rows = [_positions(self._look(topic), found)]
        else:
            rows = self._all_positions(group, found)
        return schemas.GroupPositions(group=group, state=found.state, topics=rows)

    def _all_positions(self, group: str, found: GroupDescription) -> list[schemas.TopicPositions]:
        read = found.committed.keys() | {topic for topic, _ in found.members}
        topics = [one for one in self._znodes.topics() if one in read and not _is_ledger(group, one)]
        ready = self._ready(topics) if len(topics) > 1 else {}
        # All of them together, not each: brokers learn of what is new within that time.
        until = time.monotonic() + USUAL_PROPAGATION
        rows = []
        for topic in topics:
            try:
                look = (
                    ready[topic] if topic in ready else self._look(topic, max(0.0, until - time.monotonic()))
                )
            except RequestError as error:
                if error.code not in _DELETED and not isinstance(error, UnreadableRecordError):
                    raise
                _log.info("positions of group %s without a topic: %s", group, error)
            else:
                rows.append(_positions(look, found))
        return rows

    # Both read the group's positions first (in :meth:`describe`), then log ends, and the layout last, so that it covers all
    # records below the ends.

    def _look(self, topic: str, timeout: float = USUAL_PROPAGATION) -> _Look:
        """Waits for leaders; raises RequestError for a topic that brokers do not show for ``timeout`` seconds."""
        partitions = self._topics.partitions(topic, timeout=timeout)
        led = _led(partitions)
        starts, ends = self._admin.log_starts(topic, led), self._admin.stable_ends(topic, led)
        return _Look(partitions, {p: (starts[p], ends[p]) for p in led}, self._topics.layouts(topic, 0))

    def _ready(self, topics: Sequence[str]) -> dict[str, _Look]:
        """As :meth:`_look`, with as few requests as for one topic (D-476); without those that must be waited for, or all if a
        leader must be."""
        try:
            partitions = self._topics.ready_partitions(topics)
            asked = {topic: _led(rows) for topic, rows in partitions.items()}
            logs = ready_ranges(self._admin.requests, asked, time.monotonic() + self._timeout)
            layouts = self._topics.histories(
                [schemas.LayoutQuestion(topic=topic, from_epoch=0) for topic in partitions], {}
            )
        except ZooKeeperError:
            raise
        except OrderedKafkaError as error:
            _log.info("topics are looked at one by one: %s", error)
            return {}
        return {
            row.topic: _Look(
                partitions[row.topic], {p: logs[row.topic, p] for p in asked[row.topic]}, row.history
            )
            for row in layouts.topics
            if row.history is not None
        }


@dataclass(frozen=True)
class _Look:
    """A topic's partitions, log start and last stable offset of those with a leader, and the layouts."""

    partitions: Sequence[schemas.PartitionView]
    logs: Mapping[int, tuple[int, int]]
    layouts: schemas.LayoutHistoryView


def _led(partitions: Sequence[schemas.PartitionView]) -> list[int]:
    return [row.partition for row in partitions if row.leader != NO_LEADER]


def _positions(look: _Look, found: GroupDescription) -> schemas.TopicPositions:
    layouts = look.layouts
    committed = of_topic(found.committed.get(layouts.topic, {}), layouts.topic_id)
    starts = {row.partition: look.logs.get(row.partition, (0, 0))[0] for row in look.partitions}
    waits = _waits(layouts, starts, committed)
    return schemas.TopicPositions(
        topic=layouts.topic,
        topic_id=layouts.topic_id,
        layout_epoch=layouts.layouts[-1].epoch,
        ordered_delivery=layouts.ordered_delivery,
        partitions=[
            _position(
                row,
                committed.get(row.partition),
                look.logs.get(row.partition),
                found.members.get((layouts.topic, row.partition)),
                waits.get(row.partition, []),
            )
            for row in look.partitions
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
