"""How far the consumer groups of a cluster have read a topic, from the offsets that they have committed."""

from __future__ import annotations

import logging
import struct
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolType
from kafka.protocol.metadata import CoordinatorType

from spark_ordered_kafka.kafka.clients import new_client, translating
from spark_ordered_kafka.kafka.leaders import NO_LEADER, existing_topics, leader_terms
from spark_ordered_kafka.kafka.properties import admin_properties
from spark_ordered_kafka.kafka.requests import BrokerCalls, IncompleteListing, broker_error

_LOG = logging.getLogger(__name__)
OFFSETS_TOPIC = "__consumer_offsets"

# Groups in one OffsetFetch request: each answers with all it has committed.
_GROUPS_CHUNK = 100


# Versions of OffsetFetch that fit: 8 is the first with several groups, version 10 knows topics by their ids only.
_OFFSET_FETCH = {"min_version": 8, "max_version": 9}

_DEAD = "Dead"

# Protocol types of consumer groups in a listing; those without one hold offsets that were committed without a membership.
_CONSUMERS = ("consumer", "")

_AnswerT = TypeVar("_AnswerT")


@dataclass(frozen=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and the text that went with it."""

    offset: int
    metadata: str | None


@dataclass(frozen=True)
class GroupMember:
    """A member of a consumer group, as its coordinator shows it; ``host`` begins with a slash."""

    consumer_id: str
    client_id: str
    host: str


@dataclass(frozen=True)
class GroupDescription:
    """A consumer group: Kafka's name of its state, topic -> partition -> committed offset, and who reads what.

    ``member_count`` counts all members. While a group of the classic protocol rebalances, ``members`` has none of them.
    """

    state: str
    committed: Mapping[str, Mapping[int, CommittedOffset]]
    members: Mapping[tuple[str, int], GroupMember]
    member_count: int


class ConsumerGroups(BrokerCalls):
    """The consumer groups of one cluster."""

    def committed(self, topic: str, *, without: str) -> dict[str, dict[int, CommittedOffset]]:
        """group -> partition -> what it has committed, of all groups that have committed something for ``topic``.

        Groups whose names begin with ``without`` are left out. What a transaction is about to commit does not count yet.
        Share groups (KIP-932) commit no offsets.

        An answer is complete: the coordinators of all groups were the same before and after, and had loaded them.

        Raises:
            RequestError: the groups may not be listed or described.
            UnavailableError: no complete answer in time; says what was missing.
        """
        what = f"read the committed offsets of topic {topic!r}"
        return self._retry(partial(self._committed, topic, without), what)

    def listed(self, *, without: str) -> dict[str, str]:
        """group -> Kafka's name of its state, of all consumer groups, without those whose names begin with ``without``.

        As in ``kafka-consumer-groups --list``, neither share groups nor those of Kafka Connect or Kafka Streams are among them.

        Raises:
            RequestError: the groups may not be listed.
            UnavailableError: not all brokers that coordinate groups answered in time.
        """
        found = self._retry(self._states, "list the consumer groups")
        return {name: state for name, state in sorted(found.items()) if not name.startswith(without)}

    def describe(self, group: str) -> GroupDescription | None:
        """Offsets and members of one group, from its coordinator; None when there is no such group.

        What a transaction is about to commit does not count yet.

        Raises:
            RequestError: the group may not be described.
            UnavailableError: the coordinator does not answer in time.
        """
        deadline = time.monotonic() + self._timeout
        found = self._requests.retry(partial(self._describe, group), deadline, f"describe group {group!r}")
        if found is None or found.state != _DEAD:
            return found
        newer = self._consumer_protocol_group(group, found.committed, deadline)
        return None if newer.state == _DEAD and not found.committed else newer

    def delete(self, prefix: str) -> int:
        """Delete all groups whose names begin with ``prefix``, which must have no members, and their committed offsets.

        How many there were. As complete as :meth:`committed`; deleting twice does no harm.

        Raises:
            RequestError: the groups may not be listed or deleted, or one has members.
            UnavailableError: not done in time.
        """
        return self._retry(partial(self._delete, prefix), f"delete the consumer groups {prefix!r}*")

    async def _delete(self, prefix: str, deadline: float) -> int:
        return sum(await self._of_all(lambda name: name.startswith(prefix), self._delete_some, deadline))

    async def _delete_some(self, broker: int, groups: list[str], deadline: float) -> int:
        request = DeleteGroupsRequest(groups_names=groups)
        for row in (await self._requests.send(request, broker, deadline)).results:
            if row.error_code not in (0, kafka_errors.GroupIdNotFoundError.errno):
                raise broker_error(row.error_code, f"group {row.group_id!r}")
        return len(groups)

    async def _listing(self, broker: int, deadline: float) -> list[Any]:
        """The groups that a broker coordinates."""
        response = await self._requests.send(ListGroupsRequest(min_version=4), broker, deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code, f"broker {broker}")
        return list(response.groups)

    async def _states(self, deadline: float) -> dict[str, str]:
        brokers, _ = await self._coordinators(deadline)
        listings = await self._requests.gather(self._listing(broker, deadline) for broker in brokers)
        return {
            row.group_id: row.group_state
            for listing in listings
            for row in listing
            if row.protocol_type in _CONSUMERS
        }

    async def _of_all(
        self,
        is_wanted: Callable[[str], bool],
        ask: Callable[[int, list[str], float], Awaitable[_AnswerT]],
        deadline: float,
    ) -> list[_AnswerT]:
        """What ``ask`` gets for all wanted groups, given a broker and the names of some that it coordinates."""
        brokers, before = await self._coordinators(deadline)
        if not before:
            return []

        async def at(broker: int) -> list[_AnswerT]:
            listing = await self._listing(broker, deadline)
            names = [row.group_id for row in listing if is_wanted(row.group_id)]
            starts = range(0, len(names), _GROUPS_CHUNK)
            return [await ask(broker, names[start : start + _GROUPS_CHUNK], deadline) for start in starts]

        answers = await self._requests.gather(at(broker) for broker in brokers)
        if (brokers, before) != await self._coordinators(deadline):
            raise IncompleteListing(f"leaders of {OFFSETS_TOPIC} moved while listing")
        return [answer for some in answers for answer in some]

    def _consumer_protocol_group(
        self, group: str, committed: Mapping[str, Mapping[int, CommittedOffset]], deadline: float
    ) -> GroupDescription:
        """A group of the new protocol (KIP-848), which kafka-python cannot describe."""
        admin = new_client(AdminClient, admin_properties(self._requests.properties))
        remaining = max(deadline - time.monotonic(), 1.0)
        with translating(f"describing group {group!r}"):
            found = admin.describe_consumer_groups([group], request_timeout=remaining)[group].result()
        members = {
            (tp.topic, tp.partition): GroupMember(member.member_id, member.client_id, member.host)
            for member in found.members
            for tp in member.assignment.topic_partitions
        }
        return GroupDescription(found.state.name.capitalize(), committed, members, len(found.members))

    async def _describe(self, group: str, deadline: float) -> GroupDescription | None:
        # Looking for a coordinator would create the topic.
        if not existing_topics(await self._requests.metadata([OFFSETS_TOPIC], None, deadline)):
            return None
        coordinator = await self._coordinator(group, deadline)
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        # A broker that is not the coordinator any more refuses both.
        offsets, described = await self._requests.gather(
            [
                self._requests.send(
                    OffsetFetchRequest(groups=[asked], **_OFFSET_FETCH), coordinator, deadline
                ),
                self._requests.send(DescribeGroupsRequest(groups=[group]), coordinator, deadline),
            ]
        )
        committed: dict[str, dict[int, CommittedOffset]] = defaultdict(dict)
        for topic, row in _committed_rows(offsets.groups[0]):
            committed[topic][row.partition_index] = _committed_offset(row)
        state, members = _members(described.groups[0])
        return GroupDescription(state, committed, members, len(described.groups[0].members))

    async def _coordinator(self, group: str, deadline: float) -> int:
        (found,) = await self._requests.coordinators(CoordinatorType.GROUP, [group], deadline)
        if found.error_code != 0:
            raise broker_error(found.error_code, found.error_message)
        return int(found.node_id)

    async def _committed(
        self, topic: str, without: str, deadline: float
    ) -> dict[str, dict[int, CommittedOffset]]:
        ask = partial(self._committed_of, topic)
        answers = await self._of_all(lambda name: not name.startswith(without), ask, deadline)
        return {group: offsets for answer in answers for group, offsets in answer.items()}

    async def _committed_of(
        self, topic: str, broker: int, groups: list[str], deadline: float
    ) -> dict[str, dict[int, CommittedOffset]]:
        asked = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[asked(group_id=name, topics=None) for name in groups], **_OFFSET_FETCH
        )
        answer = await self._requests.send(request, broker, deadline)
        return {row.group_id: offsets for row in answer.groups if (offsets := _offsets(row, topic))}

    async def _coordinators(self, deadline: float) -> tuple[list[int], dict[int, tuple[int, int]]]:
        """Live brokers, and leader and leader epoch of every partition of the offsets topic."""
        metadata = await self._requests.metadata([OFFSETS_TOPIC], None, deadline)
        leaders = leader_terms(metadata)
        leaderless = sorted(p for p, (leader, _) in leaders.items() if leader == NO_LEADER)
        if leaderless:
            raise IncompleteListing(
                f"{OFFSETS_TOPIC} has no leader for partition {', '.join(map(str, leaderless))}"
            )
        return sorted(broker.node_id for broker in metadata.brokers), leaders


def _offsets(group: Any, topic: str) -> dict[int, CommittedOffset]:
    return {row.partition_index: _committed_offset(row) for _, row in _committed_rows(group, topic)}


def _committed_offset(row: Any) -> CommittedOffset:
    # librdkafka ends the text with a zero byte.
    return CommittedOffset(row.committed_offset, None if row.metadata is None else row.metadata.rstrip("\0"))


def _committed_rows(group: Any, topic: str | None = None) -> Iterator[tuple[str, Any]]:
    """Topic and row of every partition that the group has committed for, of one topic or of all."""
    if group.error_code == kafka_errors.GroupIdNotFoundError.errno:
        return  # deleted since it was listed, or of a kind that commits no offsets
    if group.error_code != 0:
        raise broker_error(group.error_code, f"group {group.group_id!r}")
    for found in group.topics:
        for row in found.partitions if topic in (None, found.name) else ():
            if row.error_code != 0:
                raise broker_error(
                    row.error_code, f"group {group.group_id!r}, partition {row.partition_index}"
                )
            if row.committed_offset >= 0:
                yield found.name, row


def _members(group: Any) -> tuple[str, dict[tuple[str, int], GroupMember]]:
    """State of a group, and (topic, partition) -> the member it is assigned to."""
    if group.error_code == kafka_errors.GroupIdNotFoundError.errno:
        return _DEAD, {}  # brokers before KIP-1043 say so by the state
    if group.error_code != 0:
        raise broker_error(group.error_code, f"group {group.group_id!r}")
    members: dict[tuple[str, int], GroupMember] = {}
    for row in group.members if group.protocol_type == ConsumerProtocolType else ():
        member = GroupMember(row.member_id, row.client_id, row.client_host)
        members |= dict.fromkeys(assigned_partitions(row.member_assignment), member)
    return str(group.group_state), members


def assigned_partitions(assignment: bytes) -> list[tuple[str, int]]:
    """Topics and partitions of a member's assignment; none while the group rebalances.

    The group's leader, any client that may join, has written it: one that cannot be read counts as empty.
    """
    if not assignment:
        return []
    try:
        topics = ConsumerProtocolAssignment.decode(assignment).assigned_partitions
        return [(str(topic.topic), int(number)) for topic in topics for number in topic.partitions]
    except (ValueError, TypeError, IndexError, struct.error) as error:
        _LOG.warning("a member's assignment of %d bytes cannot be read: %s", len(assignment), str(error))
        return []
