"""How far the consumer groups of a cluster have read a topic, from the offsets that they have committed."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from spark_ordered_kafka.kafka.leaders import NO_LEADER, existing_topics
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error

OFFSETS_TOPIC = "__consumer_offsets"

# Groups in one OffsetFetch request: each answers with all it has committed.
_GROUPS_CHUNK = 100


class _IncompleteListing(kafka_errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """A listing may lack groups."""


class ConsumerGroups:
    """The consumer groups of one cluster, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        timeout: seconds for each call.
    """

    def __init__(self, requests: BrokerRequests, *, timeout: float = 30.0) -> None:
        self._requests = requests
        self._timeout = timeout

    def committed(self, topic: str, *, without: str) -> dict[str, dict[int, int]]:
        """group -> partition -> committed offset, of all groups that have committed something for ``topic``.

        Groups whose names begin with ``without`` are left out. What a transaction is about to commit does not count yet.
        Share groups (KIP-932) commit no offsets.

        An answer is complete: the coordinators of all groups were the same before and after, and had loaded them.

        Raises:
            RequestError: the groups may not be listed or described.
            UnavailableError: no complete answer in time; says what was missing.
        """
        deadline = time.monotonic() + self._timeout
        what = f"read the committed offsets of topic {topic!r}"
        return self._requests.retry(partial(self._committed, topic, without), deadline, what)

    async def _committed(self, topic: str, without: str, deadline: float) -> dict[str, dict[int, int]]:
        brokers, before = await self._coordinators(deadline)
        if not before:
            return {}
        answers = await self._requests.gather(
            self._committed_at(broker, topic, without, deadline) for broker in brokers
        )
        if (brokers, before) != await self._coordinators(deadline):
            raise _IncompleteListing(f"leaders of {OFFSETS_TOPIC} moved while listing")
        return {group: offsets for answer in answers for group, offsets in answer.items()}

    async def _coordinators(self, deadline: float) -> tuple[list[int], dict[int, tuple[int, int]]]:
        """Live brokers, and leader and leader epoch of every partition of the offsets topic."""
        metadata = await self._requests.metadata([OFFSETS_TOPIC], None, deadline)
        rows = [row for topic in existing_topics(metadata) for row in topic.partitions]
        leaders = {row.partition_index: (row.leader_id, row.leader_epoch) for row in rows}
        leaderless = sorted(p for p, (leader, _) in leaders.items() if leader == NO_LEADER)
        if leaderless:
            raise _IncompleteListing(
                f"{OFFSETS_TOPIC} has no leader for partition {', '.join(map(str, leaderless))}"
            )
        return sorted(broker.node_id for broker in metadata.brokers), leaders

    async def _committed_at(
        self, broker: int, topic: str, without: str, deadline: float
    ) -> dict[str, dict[int, int]]:
        """Of the groups that ``broker`` coordinates."""
        response = await self._requests.send(ListGroupsRequest(), broker, deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code, f"broker {broker}")
        names = [row.group_id for row in response.groups if not row.group_id.startswith(without)]
        found: dict[str, dict[int, int]] = {}
        asked = OffsetFetchRequest.OffsetFetchRequestGroup
        for start in range(0, len(names), _GROUPS_CHUNK):
            groups = [asked(group_id=name, topics=None) for name in names[start : start + _GROUPS_CHUNK]]
            # Version 8 is the first with several groups, version 10 knows topics by their ids only.
            request = OffsetFetchRequest(groups=groups, min_version=8, max_version=9)
            answer = await self._requests.send(request, broker, deadline)
            found |= {row.group_id: offsets for row in answer.groups if (offsets := _offsets(row, topic))}
        return found


def _offsets(group: Any, topic: str) -> dict[int, int]:
    if group.error_code == kafka_errors.GroupIdNotFoundError.errno:
        return {}  # deleted since it was listed, or of a kind that commits no offsets
    if group.error_code != 0:
        raise broker_error(group.error_code, f"group {group.group_id!r}")
    offsets: dict[int, int] = {}
    for row in (row for found in group.topics if found.name == topic for row in found.partitions):
        if row.error_code != 0:
            raise broker_error(row.error_code, f"group {group.group_id!r}, partition {row.partition_index}")
        if row.committed_offset >= 0:
            offsets[row.partition_index] = row.committed_offset
    return offsets
