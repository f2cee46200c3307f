"""Fencing of ordered writers: list the transactions of the cluster, then take over their transactional ids."""

from __future__ import annotations

import heapq
import itertools
import queue
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER, existing_topics
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient, translated

TRANSACTION_STATE_TOPIC = "__transaction_state"

# It also bounds the broker's write to its transaction log, so it must not be tiny; brokers refuse one that is above
# their transaction.max.timeout.ms. No transaction is ever begun under it.
_TRANSACTION_TIMEOUT_MS = 10_000

_FIRST_BACKOFF, _LAST_BACKOFF = 0.005, 0.25
_COORDINATORS_CHUNK = 1000
_SHOWN = 3

# The writer ended its transaction while the coordinator was about to abort it: the next attempt finds it ended.
_RACED = (
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.InvalidTxnStateError,
    kafka_errors.ProducerFencedError,
)


class _IncompleteListing(kafka_errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """A listing may lack transactions."""


@dataclass(frozen=True)
class _Coordinators:
    """Live brokers, and ``(leader, leader epoch)`` of every partition of the transaction log."""

    brokers: frozenset[int]
    leaders: tuple[tuple[int, int], ...]


class Fencer:
    """Finds and fences the transactional producers of a cluster, for use by any number of threads.

    Args:
        admin: connections to the cluster.
        concurrency: ids that are fenced at the same time.
    """

    def __init__(self, admin: KafkaAdmin, *, concurrency: int = 16) -> None:
        self._requests = admin.requests
        self._concurrency = concurrency

    def list_transactions(self, prefix: str, deadline: float) -> dict[str, str]:
        """All transactional ids of the cluster that begin with ``prefix``, with their states, idle ones included.

        States are those of Kafka's ``TransactionState``: ``Empty``, ``Ongoing``, ``PrepareCommit``, ``PrepareAbort``,
        ``CompleteCommit``, ``CompleteAbort``, ``PrepareEpochFence``.

        An answer is complete: every broker named the same leader for every partition of the transaction log before and
        after the listing, and the leaders had loaded all of it both times.

        Args:
            deadline: in ``time.monotonic()`` seconds.

        Raises:
            RequestError: ids that begin with ``prefix`` may not be described.
            UnavailableError: no complete listing before the deadline; says what was missing.
        """
        rows = self._listed(prefix, deadline)
        return {
            row.transactional_id: row.transaction_state
            for row in rows
            if row.transactional_id.startswith(prefix)
        }

    def list_producers(self, prefix: str, deadline: float) -> dict[int, str]:
        """Transactional id by producer id, of all transactional producers of the cluster.

        Complete, as :meth:`list_transactions`, for the ids that begin with ``prefix``; others that may not be described
        are left out. Arguments and errors are those of :meth:`list_transactions`.
        """
        return {row.producer_id: row.transactional_id for row in self._listed(prefix, deadline)}

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
        fencing = _Fencing(self._requests, transactional_ids, deadline)
        try:
            fencing.run(self._concurrency, on_fenced)
        finally:
            fencing.stop()

    def _listed(self, prefix: str, deadline: float) -> list[Any]:
        return self._requests.retry(
            partial(self._list, prefix), deadline, f"list all transactions beginning with {prefix!r}"
        )

    async def _list(self, prefix: str, deadline: float) -> list[Any]:
        before = await self._coordinators(prefix, deadline)
        if not before.leaders:
            return []
        listings = await self._requests.gather(
            self._list_of(broker, deadline) for broker in sorted(before.brokers)
        )
        after = await self._coordinators(prefix, deadline)
        if after != before:
            raise _IncompleteListing(f"leaders of {TRANSACTION_STATE_TOPIC} moved while listing")
        return [row for listing in listings for row in listing]

    async def _list_of(self, broker: int, deadline: float) -> list[Any]:
        response = await self._requests.send(ListTransactionsRequest(), broker, deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code, f"broker {broker}")
        rows: list[Any] = response.transaction_states
        return rows

    async def _coordinators(self, prefix: str, deadline: float) -> _Coordinators:
        """The transaction coordinators that all brokers agree on and that have loaded their partitions."""
        first = await self._requests.metadata([TRANSACTION_STATE_TOPIC], None, deadline)
        brokers = sorted(broker.node_id for broker in first.brokers)
        views = await self._requests.gather(
            self._requests.metadata([TRANSACTION_STATE_TOPIC], broker, deadline) for broker in brokers
        )
        found = {_view(view) for view in views}
        if len(found) != 1:
            raise _IncompleteListing(
                f"brokers {brokers} do not agree on the leaders of {TRANSACTION_STATE_TOPIC}"
            )
        coordinators = found.pop()
        if not coordinators.leaders:
            # The topic comes into being with the first transactional producer.
            return coordinators
        leaderless = [
            str(partition)
            for partition, (leader, _) in enumerate(coordinators.leaders)
            if leader not in coordinators.brokers
        ]
        if leaderless:
            raise _IncompleteListing(
                f"{TRANSACTION_STATE_TOPIC} has no live leader for partition {', '.join(leaderless)}"
            )
        await self._check_loaded(coordinators, prefix, deadline)
        return coordinators

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
            for row in answer.transaction_states:
                if row.error_code not in (0, kafka_errors.TransactionalIdNotFoundError.errno):
                    raise broker_error(
                        row.error_code, f"broker {leader}, transactional ids beginning with {prefix!r}"
                    )


def _view(metadata: Any) -> _Coordinators:
    brokers = frozenset(broker.node_id for broker in metadata.brokers)
    partitions = [row for topic in existing_topics(metadata) for row in topic.partitions]
    leaders = {row.partition_index: (row.leader_id, row.leader_epoch) for row in partitions}
    # A partition that the broker has not heard of yet has no leader.
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


class _Fencing:
    """One call of :meth:`Fencer.fence`. Its state belongs to the network loop's thread, but for :meth:`run`."""

    def __init__(self, requests: BrokerRequests, transactional_ids: Collection[str], deadline: float) -> None:
        self._requests = requests
        self._deadline = deadline
        self._open = set(transactional_ids)
        # (when to try, backoff after that, id)
        self._due = [(0.0, _FIRST_BACKOFF, transactional_id) for transactional_id in sorted(self._open)]
        self._coordinators: dict[str, int] = {}
        self._last_error: kafka_errors.KafkaError | None = None
        self._stopped = False
        # True: go on, more ids are done; False: all are; an exception: they will not be.
        self._events: queue.SimpleQueue[bool | BaseException] = queue.SimpleQueue()

    def run(self, concurrency: int, on_fenced: Callable[[int], None]) -> None:
        """Fence all ids, telling ``on_fenced`` in this thread; one that is slow is told less often."""
        total, told = len(self._open), 0
        finished = self._requests.start(self._fence_all(concurrency))
        finished.add_callback(lambda _: self._events.put(False))
        finished.add_errback(self._events.put)
        going_on = True
        while going_on:
            try:
                event = self._events.get(timeout=max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                raise self._late() from self._last_error
            if isinstance(event, BaseException):
                raise event
            going_on = event
            done = total - len(self._open)
            if done > told:
                on_fenced(done)
                told = done

    def stop(self) -> None:
        """Send nothing more. A request under way may still fence its id."""
        self._stopped = True

    async def _fence_all(self, concurrency: int) -> None:
        await self._requests.gather(self._work() for _ in range(min(concurrency, len(self._open))))

    async def _work(self) -> None:
        while self._due and not self._stopped:
            at, backoff, transactional_id = heapq.heappop(self._due)
            await self._requests.sleep(max(0.0, at - time.monotonic()))
            try:
                await self._init_producer_id(transactional_id)
            except kafka_errors.KafkaError as error:
                self._failed(transactional_id, backoff, error)
            else:
                self._open.discard(transactional_id)
                self._events.put(True)

    def _failed(self, transactional_id: str, backoff: float, error: kafka_errors.KafkaError) -> None:
        if not (is_transient(error) or isinstance(error, _RACED)):
            self._stopped = True
            what = f"fence transactional id {transactional_id!r}"
            self._events.put(translated(error, what, self._requests.servers))
            return
        if not isinstance(error, kafka_errors.ConcurrentTransactionsError):
            self._coordinators.pop(transactional_id, None)
        if self._last_error is None or time.monotonic() < self._deadline:
            self._last_error = error
        again = (time.monotonic() + backoff, min(2 * backoff, _LAST_BACKOFF), transactional_id)
        heapq.heappush(self._due, again)

    async def _init_producer_id(self, transactional_id: str) -> None:
        if transactional_id not in self._coordinators:
            await self._find_coordinators(transactional_id)
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        response = await self._requests.send(request, self._coordinators[transactional_id], self._deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code)

    async def _find_coordinators(self, wanted: str) -> None:
        """Look up the coordinator of ``wanted`` and of others that have none yet, which costs no more."""
        others = (other for _, _, other in self._due if other not in self._coordinators)
        keys = [wanted, *itertools.islice(others, _COORDINATORS_CHUNK - 1)]
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.TRANSACTION.value, coordinator_keys=keys, min_version=4
        )
        response = await self._requests.send(request, None, self._deadline)
        for found in response.coordinators:
            if found.error_code == 0:
                self._coordinators[found.key] = found.node_id
            elif found.key == wanted:
                raise broker_error(found.error_code, found.error_message)

    def _late(self) -> UnavailableError:
        left = sorted(self._open)
        shown = ", ".join(left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
        return UnavailableError(
            f"{len(left)} transactional ids were not fenced in time: {shown}; last error: {self._last_error}"
        )
