"""Fencing of ordered writers: list the transactions of the cluster, then take over their transactional ids."""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.epoch_bumps import FENCE_TIMEOUT_MS, EpochBumps
from spark_ordered_kafka.kafka.leaders import NO_LEADER, leader_terms
from spark_ordered_kafka.kafka.requests import IncompleteListing, broker_error
from spark_ordered_kafka.kafka.values import PartitionId

TRANSACTION_STATE_TOPIC = "__transaction_state"
IDLE_STATES = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
"""States of an id without a transaction."""

_DESCRIBED_AT_ONCE = 5000
_FENCED_AT_ONCE = 16


@dataclass(frozen=True)
class WriterId:
    """What its coordinator says of a writer's transactional id.

    ``state`` is of Kafka's ``TransactionState``: ``Empty``, ``Ongoing``, ``PrepareCommit``, ``PrepareAbort``,
    ``CompleteCommit``, ``CompleteAbort``, ``PrepareEpochFence``. ``is_left``: a fence was the last to initialise it, so
    no producer can write under it until one initialises it again (D-015). ``began_at``: when its last transaction began, in
    milliseconds since the epoch by the broker's clock; -1 where the broker does not know.
    """

    state: str
    is_left: bool
    began_at: int

    @property
    def is_idle(self) -> bool:
        """Whether it has no transaction."""
        return self.state in IDLE_STATES


@dataclass(frozen=True)
class ProducerTransaction:
    """What a coordinator says of a producer: its transactional id, and the partitions of the transaction that it has open."""

    transactional_id: str
    partitions: frozenset[PartitionId]


@dataclass(frozen=True)
class _Coordinators:
    """Live brokers, and ``(leader, leader epoch)`` of every partition of the transaction log."""

    brokers: frozenset[int]
    leaders: tuple[tuple[int, int], ...]


class Fencer:
    """Finds and fences the transactional producers of a cluster, for use by any number of threads.

    Args:
        admin: connections to the cluster.
    """

    def __init__(self, admin: KafkaAdmin) -> None:
        self._requests = admin.requests

    def list_writers(self, prefix: str, deadline: float) -> dict[str, WriterId]:
        """All transactional ids of the cluster that begin with ``prefix``, idle ones included.

        An answer is complete: every broker named the same leader for every partition of the transaction log before and
        after the listing, and the leaders had loaded all of it both times.

        Args:
            deadline: in ``time.monotonic()`` seconds.

        Raises:
            RequestError: ids that begin with ``prefix`` may not be described.
            UnavailableError: no complete listing before the deadline; says what was missing.
        """
        ask = partial(self._describe, prefix, prefix, lambda row: row.transactional_id.startswith(prefix))
        return {row.transactional_id: _writer_id(row) for row in self._of_all(prefix, ask, deadline)}

    def list_producers(self, prefix: str, deadline: float) -> dict[int, str]:
        """Transactional id by producer id, of all transactional producers of the cluster.

        Complete, as :meth:`list_writers`, for the ids that begin with ``prefix``; others that may not be described
        are left out. Arguments and errors are those of :meth:`list_writers`.
        """
        rows = self._of_all(prefix, partial(self._list, None), deadline)
        return {row.producer_id: row.transactional_id for row in rows}

    def transactions_of(
        self, producer_ids: Collection[int], prefix: str, deadline: float
    ) -> dict[int, ProducerTransaction]:
        """By producer id, of those of ``producer_ids`` that a coordinator knows.

        Complete as :meth:`list_producers`. Arguments and errors are those of :meth:`list_writers`.
        """
        wanted = frozenset(producer_ids)
        ask = partial(self._describe, prefix, None, lambda row: row.producer_id in wanted)
        return {row.producer_id: _transaction(row) for row in self._of_all(prefix, ask, deadline)}

    def fence(
        self, transactional_ids: Collection[str], deadline: float, on_fenced: Callable[[int], None]
    ) -> None:
        """Abort what is open under the ids and reject their producers from now on (InitProducerId, KIP-98).

        When it returns, the markers of every transaction that was open or being committed are written and replicated.

        Args:
            deadline: in ``time.monotonic()`` seconds.
            on_fenced: is called in the calling thread with the number of ids done so far.

        Raises:
            RequestError: Kafka refused to fence an id; names it.
            UnavailableError: not all were fenced before the deadline; names some and the last error.
        """
        if not transactional_ids:
            return
        fencing = EpochBumps(self._requests, transactional_ids, deadline)
        try:
            fencing.run(_FENCED_AT_ONCE, on_fenced)
        finally:
            fencing.stop()

    def _of_all(
        self, prefix: str, ask: Callable[[int, float], Awaitable[list[Any]]], deadline: float
    ) -> list[Any]:
        """The rows that ``ask`` gets from the brokers, which have all been coordinators of the same ids all the time."""
        what = f"list all transactions beginning with {prefix!r}"
        return self._requests.retry(partial(self._ask_all, prefix, ask), deadline, what)

    async def _ask_all(
        self, prefix: str, ask: Callable[[int, float], Awaitable[list[Any]]], deadline: float
    ) -> list[Any]:
        known = _view(await self._requests.metadata([TRANSACTION_STATE_TOPIC], None, deadline))
        await self._confirm(known, prefix, deadline)
        if not known.leaders:
            # The topic comes into being with the first transactional producer.
            return []
        listings = await self._requests.gather(ask(broker, deadline) for broker in sorted(known.brokers))
        await self._confirm(known, prefix, deadline)
        return [row for listing in listings for row in listing]

    async def _describe(
        self, prefix: str, listed: str | None, is_wanted: Callable[[Any], bool], broker: int, deadline: float
    ) -> list[Any]:
        """Rows of DescribeTransactions, of what is wanted among the ids that :meth:`_list` gives for ``listed``."""
        rows: list[Any] = []
        names = [row.transactional_id for row in await self._list(listed, broker, deadline) if is_wanted(row)]
        for first in range(0, len(names), _DESCRIBED_AT_ONCE):
            request = DescribeTransactionsRequest(transactional_ids=names[first : first + _DESCRIBED_AT_ONCE])
            response = await self._requests.send(request, broker, deadline)
            # One that is not found any more has expired.
            rows += [row for row in _checked(response, broker, prefix) if row.error_code == 0]
        return rows

    async def _list(self, prefix: str | None, broker: int, deadline: float) -> list[Any]:
        """Rows of ListTransactions, of ids that begin with ``prefix``; None: of all.

        Brokers before Kafka 4.1 know no patterns (KIP-1152) and list all.
        """
        pattern = None if prefix is None else f"{re.escape(prefix)}(?s:.*)"
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        response = await self._requests.send(request, broker, deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code, f"broker {broker}")
        rows: list[Any] = response.transaction_states
        return rows

    async def _confirm(self, known: _Coordinators, prefix: str, deadline: float) -> None:
        """Have all brokers name these coordinators, which have loaded their partitions, or raise a retriable error."""
        leaderless = [
            str(partition)
            for partition, (leader, _) in enumerate(known.leaders)
            if leader not in known.brokers
        ]
        if leaderless:
            raise IncompleteListing(
                f"{TRANSACTION_STATE_TOPIC} has no live leader for partition {', '.join(leaderless)}"
            )
        # Both at the same time: writers are held up by each round trip.
        views = [
            self._requests.start(self._requests.metadata([TRANSACTION_STATE_TOPIC], broker, deadline))
            for broker in sorted(known.brokers)
        ]
        await self._check_loaded(known, prefix, deadline)
        if {_view(await view) for view in views} != {known}:
            raise IncompleteListing(
                f"brokers do not agree on the leaders of {TRANSACTION_STATE_TOPIC}, or these have moved"
            )

    async def _check_loaded(self, coordinators: _Coordinators, prefix: str, deadline: float) -> None:
        """Have the coordinator of every partition describe an id of that partition.

        A broker that has become leader leaves transactions out of a listing, without an error, until it begins to load
        them. It also leaves out ids it may not show; describing one that begins with ``prefix`` reveals that.
        """
        by_leader: dict[int, list[str]] = {}
        for partition, probe in enumerate(_probes(prefix, len(coordinators.leaders))):
            by_leader.setdefault(coordinators.leaders[partition][0], []).append(probe)
        answers = await self._requests.gather(
            self._requests.send(DescribeTransactionsRequest(transactional_ids=probes), leader, deadline)
            for leader, probes in by_leader.items()
        )
        for leader, answer in zip(by_leader, answers, strict=True):
            _checked(answer, leader, prefix)


def _checked(described: Any, broker: int, prefix: str) -> list[Any]:
    """The rows, of ids that exist and others; raises the error of one that the broker may not or cannot describe."""
    rows: list[Any] = described.transaction_states
    for row in rows:
        if row.error_code not in (0, kafka_errors.TransactionalIdNotFoundError.errno):
            raise broker_error(
                row.error_code, f"broker {broker}, transactional ids beginning with {prefix!r}"
            )
    return rows


def _writer_id(row: Any) -> WriterId:
    return WriterId(
        state=row.transaction_state,
        is_left=row.transaction_state == "Empty" and row.transaction_timeout_ms == FENCE_TIMEOUT_MS,
        began_at=row.transaction_start_time_ms,
    )


def _transaction(row: Any) -> ProducerTransaction:
    return ProducerTransaction(
        row.transactional_id,
        frozenset((found.topic, partition) for found in row.topics for partition in found.partitions),
    )


def _view(metadata: Any) -> _Coordinators:
    brokers = frozenset(broker.node_id for broker in metadata.brokers)
    leaders = leader_terms(metadata)
    # A partition that the broker does not know yet has no leader.
    count = max(leaders, default=-1) + 1
    return _Coordinators(
        brokers, tuple(leaders.get(partition, (NO_LEADER, -1)) for partition in range(count))
    )


def _probes(prefix: str, partitions: int) -> list[str]:
    """For each partition of the transaction log one transactional id that belongs to it and begins with ``prefix``."""
    probes: dict[int, str] = {}
    # Characters that follow each other lead to partitions that follow each other.
    characters = map(chr, itertools.count(0x4E00))
    while len(probes) < partitions:
        probe = prefix + next(characters)
        probes.setdefault(coordinator_partition(probe, partitions), probe)
    return [probes[partition] for partition in range(partitions)]


def coordinator_partition(transactional_id: str, partitions: int) -> int:
    """Partition of the transaction log that an id belongs to (``TransactionStateManager.partitionFor``).

    The hash is ``java.lang.String.hashCode``; the id must not have characters beyond U+FFFF.
    """
    unsigned = 0
    for character in transactional_id:
        unsigned = (31 * unsigned + ord(character)) & 0xFFFFFFFF
    signed = unsigned - (unsigned >> 31 << 32)
    # org.apache.kafka.common.utils.Utils.abs: the smallest int, which has no absolute value, counts as 0.
    return 0 if signed == -(2**31) else abs(signed) % partitions
