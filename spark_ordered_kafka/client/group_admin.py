"""Consumer groups as an operator sees them: listed, deleted, and put to other offsets so that keys stay in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.client.joining import GroupOffsets
from spark_ordered_kafka.client.progress import oldest_since
from spark_ordered_kafka.client.topic_layouts import TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    invalid_request,
)
from spark_ordered_kafka.kafka.clients import described_group, new_client, translate, unknown_topic, wait_for
from spark_ordered_kafka.kafka.descriptions import Descriptions
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.properties import admin_properties, client_properties
from spark_ordered_kafka.kafka.ranges import LogQuestion
from spark_ordered_kafka.ordering.handover import Release
from spark_ordered_kafka.ordering.resetting import furthest

_TIMEOUT = 15.0
_IDLE = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)

Kind = Literal["earliest", "latest", "time", "offset", "shift"]


@dataclass(frozen=True)
class Target:
    """The position that a group is moved to: for ``time`` at the first record that is not older than ``value`` (milliseconds), for
    ``offset`` at that offset, for ``shift`` so many records behind where it is."""

    kind: Kind
    value: int = 0


@dataclass(frozen=True)
class NewOffset:
    """An offset that a group gets. ``asked`` lies behind ``new`` where that would leave a gap inside keys."""

    topic: str
    partition: int
    current: int | None
    new: int
    asked: int
    metadata: str = ""


@dataclass(frozen=True)
class ListedGroup:
    """A consumer group; ``state`` and ``kind`` are Kafka's names. ``is_ledger``: it is the ledger of a writer's task."""

    group: str
    state: str
    kind: str
    is_ledger: bool


class GroupAdmin:
    """Lists and deletes the consumer groups of a cluster.

    Args:
        kafka: librdkafka's properties of the connection.
        timeout: seconds for each request.
    """

    def __init__(self, kafka: Mapping[str, str], *, timeout: float = _TIMEOUT) -> None:
        self._timeout = timeout
        self._kafka = kafka
        self._admin = new_client(AdminClient, admin_properties(kafka))

    def groups(self) -> list[ListedGroup]:
        """All groups that the caller may describe, by name.

        Raises:
            UnavailableError: a broker does not answer, so groups may be missing.
            RequestError: groups may not be listed.
        """
        doing = "listing consumer groups"
        found = wait_for(
            self._admin.list_consumer_groups(request_timeout=self._timeout), self._timeout, doing
        )
        for error in found.errors:
            raise translate(error.args[0] if isinstance(error, KafkaException) else error, doing)
        rows = [
            ListedGroup(
                one.group_id,
                one.state.name.capitalize(),
                one.type.name.lower(),
                WriterTask.of(one.group_id) is not None,
            )
            for one in found.valid
        ]
        return sorted(rows, key=lambda row: row.group)

    def delete(self, groups: Sequence[str]) -> dict[str, OrderedKafkaError]:
        """Delete groups with the offsets that they have committed; those where that failed.

        Of a group with members NON_EMPTY_GROUP, of one that does not exist GROUP_ID_NOT_FOUND, of a ledger INVALID_REQUEST:
        without it a query that replays a batch would write it twice.
        """
        failed: dict[str, OrderedKafkaError] = {one: error for one in groups if (error := _of_ledger(one))}
        wanted = [one for one in groups if one not in failed]
        futures = self._admin.delete_consumer_groups(wanted, request_timeout=self._timeout) if wanted else {}
        for group, future in futures.items():
            try:
                wait_for(future, self._timeout, f"deleting group {group!r}")
            except OrderedKafkaError as error:
                failed[group] = error
        return failed

    def check_idle(self, group: str) -> None:
        """Raises RequestError NON_EMPTY_GROUP if the group has members, UnavailableError if that is not known."""
        found = described_group(self._admin, group, self._timeout)
        if found is not None and found.state not in _IDLE:
            raise _has_members(group, f"it has {len(found.members)}, state {found.state.name.capitalize()}")

    def committed_topics(self, group: str) -> list[str]:
        """The topics that the group has committed offsets for."""
        asked = [ConsumerGroupTopicPartitions(group)]
        future = self._admin.list_consumer_group_offsets(asked, request_timeout=self._timeout)[group]
        found = wait_for(future, self._timeout, f"reading the offsets of group {group!r}")
        return sorted({one.topic for one in found.topic_partitions if one.offset >= 0})

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that exists."""
        with Descriptions(self._kafka) as descriptions:
            described = descriptions.topic(topic, self._timeout)
            found = wait_for(described, self._timeout, f"describing topic {topic!r}")
        return sorted(one.id for one in found.partitions)


class OffsetReset:
    """Puts one group to other offsets. Its members must be stopped.

    Args:
        connection: of the cluster and its controllers, which say what the layouts of a topic are.
        group: its name.

    Raises RequestError INVALID_REQUEST for a writer's ledger, which says what a query has written.
    """

    def __init__(self, connection: Connection, group: str) -> None:
        if (error := _of_ledger(group)) is not None:
            raise error
        self._group = group
        self.admin = GroupAdmin(connection.kafka)
        self._directory = TopicDirectory(connection)
        conf = client_properties(connection.kafka, group_id=group, enable_auto_commit=False)
        self._consumer = new_client(Consumer, conf)
        self._offsets = GroupOffsets(self._consumer, group, is_member=False)

    def __enter__(self) -> OffsetReset:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._directory.close()

    def plan(self, topic: str, partitions: Collection[int] | None, target: Target) -> list[NewOffset]:
        """The offsets that the group would get in a topic; ``partitions`` None: in all.

        In a topic with ordered delivery, positions go back to where an ordered reader can come by, so that each key is read
        on from one point, without a gap (D-283).

        Raises:
            ConfigError: a partition does not exist, there is nothing to shift, or a partition outside ``partitions`` would
                have to go back.
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, there is no such topic.
            UnavailableError: a server does not answer, or a transaction with offsets of the group is open.
        """
        try:
            snapshot = self._directory.snapshot(topic)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return self._plan_unmanaged(topic, partitions, target)
        return self._plan_managed(snapshot, partitions, target)

    def execute(self, rows: Sequence[NewOffset]) -> None:
        """Commit the offsets, all or none of them.

        Raises:
            RequestError: NON_EMPTY_GROUP, a member has joined.
            UnavailableError: the group's coordinator does not answer.
        """
        wanted = [TopicPartition(one.topic, one.partition, one.new, metadata=one.metadata) for one in rows]
        try:
            self._offsets.commit(wanted)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise _has_members(self._group, "one has joined") from error

    def _plan_unmanaged(
        self, topic: str, partitions: Collection[int] | None, target: Target
    ) -> list[NewOffset]:
        if not self._directory.ranges.exists(topic):
            raise unknown_topic(topic)
        known = self.admin.partitions(topic)
        scope = _scope(topic, known, partitions)
        log = self._directory.ranges.log(topic, LogQuestion(scope))
        current = {p: release.offset for p, release in self._offsets.read(topic, None, scope).items()}
        asked = self._asked(topic, scope, target, current, log.starts, log.ends)
        return [NewOffset(topic, p, current.get(p), asked[p], asked[p]) for p in scope]

    def _plan_managed(
        self, snapshot: TopicSnapshot, partitions: Collection[int] | None, target: Target
    ) -> list[NewOffset]:
        topic, history = snapshot.topic, snapshot.history
        scope = _scope(topic, range(history.partition_count), partitions)
        group = self._offsets.read(topic, snapshot.topic_id, range(history.partition_count))
        current = {p: release.offset for p, release in group.items()}
        times = [p for p in scope if p not in snapshot.absent] if target.kind == "time" else scope
        asked = self._asked(topic, times, target, current, snapshot.starts, snapshot.ends)
        asked |= {p: snapshot.ends[p] for p in scope if p not in asked}
        new = asked
        if snapshot.layouts.ordered:
            wanted = {p: asked.get(p, current.get(p, at)) for p, at in snapshot.starts.items()}
            new = furthest(history, snapshot.starts, wanted)
            _check_others(topic, scope, wanted, new, current)
        epoch = history.current.epoch
        others = [release for p, release in group.items() if p not in scope]
        release = Release(0, epoch, oldest_since(others, epoch), topic_id=snapshot.topic_id)
        return [
            NewOffset(topic, p, current.get(p), new[p], asked[p], replace(release, offset=new[p]).metadata())
            for p in scope
        ]

    def _asked(
        self,
        topic: str,
        scope: Collection[int],
        target: Target,
        current: Mapping[int, int],
        starts: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> dict[int, int]:
        """Where the target lies in each partition, inside its log."""
        if target.kind == "earliest":
            return {p: starts[p] for p in scope}
        if target.kind == "latest":
            return {p: ends[p] for p in scope}
        if target.kind == "time":
            found = self._directory.ranges.offsets_at(topic, dict.fromkeys(scope, target.value))
            # Without a record that late: behind the last one, as Kafka's tool has it.
            wanted = {p: ends[p] if at is None else at for p, at in found.items()}
        elif target.kind == "offset":
            wanted = dict.fromkeys(scope, target.value)
        else:
            missing = [p for p in scope if p not in current]
            if missing:
                shown = ", ".join(f"{topic}-{p}" for p in missing[:10])
                raise ConfigError(
                    "--shift-by",
                    target.value,
                    f"the group has committed nothing in {shown}: leave them out, or give another position",
                )
            wanted = {p: current[p] + target.value for p in scope}
        return {p: min(max(at, starts[p]), ends[p]) for p, at in wanted.items()}


def _scope(topic: str, known: Sequence[int], partitions: Collection[int] | None) -> list[int]:
    wrong = [p for p in partitions or () if p not in known]
    if wrong:
        raise ConfigError("--topic", f"{topic}:{wrong[0]}", f"it has the partitions 0 to {len(known) - 1}")
    return sorted(known if partitions is None else set(partitions))


def _check_others(
    topic: str,
    scope: Collection[int],
    wanted: Mapping[int, int],
    new: Mapping[int, int],
    current: Mapping[int, int],
) -> None:
    """Raises ConfigError for a partition that is not to change and would have to go back."""
    late = {p: at for p, at in new.items() if p not in scope and p in current and at < wanted[p]}
    if late:
        shown = ", ".join(f"{topic}-{p} from {current[p]} to {at}" for p, at in sorted(late.items())[:5])
        together = ",".join(map(str, sorted({*scope, *late})))
        raise ConfigError(
            "--topic",
            f"{topic}:{','.join(map(str, scope))}",
            f"keys moved from there to other partitions, which would have to go back, too ({shown}): "
            f"give --topic {topic}:{together}, or --topic {topic} for all",
        )


def _of_ledger(group: str) -> RequestError | None:
    if WriterTask.of(group) is None:
        return None
    return invalid_request(
        f"group {group!r} is the ledger of a writer's task: without it a batch that is replayed is written twice"
    )


def _has_members(group: str, detail: str) -> RequestError:
    return RequestError(
        ErrorCode.NON_EMPTY_GROUP, f"group {group!r} has members ({detail}): stop all of them first"
    )
