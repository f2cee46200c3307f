"""InitProducerId for many transactional ids at once: what aborts their transactions and rejects their producers."""

from __future__ import annotations

import heapq
import itertools
import queue
import time
from collections.abc import Callable, Collection

from kafka import errors as kafka_errors
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient, translated

FENCE_TIMEOUT_MS = 999
"""The transaction timeout that a fence gives to an id, by which DescribeTransactions shows that a fence was the last to
initialise it (D-015). No writer can have it: librdkafka takes no ``transaction.timeout.ms`` below 1000."""

_FIRST_BACKOFF, _LAST_BACKOFF = 0.005, 0.25
_COORDINATORS_CHUNK = 1000
_SHOWN = 3

# The writer ended its transaction while the coordinator was about to abort it: the next attempt finds it ended.
_RACED = (
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.InvalidTxnStateError,
    kafka_errors.ProducerFencedError,
)


class EpochBumps:
    """One call of ``Fencer.fence``. Its state belongs to the network loop's thread, but for :meth:`run`."""

    def __init__(self, requests: BrokerRequests, transactional_ids: Collection[str], deadline: float) -> None:
        self._requests = requests
        self._deadline = deadline
        self._open = set(transactional_ids)
        # (when to try, backoff after that, id)
        self._due = [(0.0, _FIRST_BACKOFF, transactional_id) for transactional_id in sorted(self._open)]
        self._coordinators: dict[str, int] = {}
        self._last_error: kafka_errors.KafkaError | None = None
        self._stopped = False
        # True: more ids are done; False: all are; an exception: they will not be.
        self._events: queue.SimpleQueue[bool | BaseException] = queue.SimpleQueue()

    def run(self, concurrency: int, on_fenced: Callable[[int], None]) -> None:
        """Fence all ids. Calls ``on_fenced`` in this thread with the number done; a slow one is called less often."""
        total, reported = len(self._open), 0
        finished = self._requests.start(self._fence_all(concurrency))
        finished.add_callback(lambda _: self._events.put(False))
        finished.add_errback(self._events.put)
        more = True
        while more:
            try:
                event = self._events.get(timeout=max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                raise self._late() from self._last_error
            if isinstance(event, BaseException):
                raise event
            more = event
            done = total - len(self._open)
            if done > reported:
                on_fenced(done)
                reported = done

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
            transactional_id=transactional_id, transaction_timeout_ms=FENCE_TIMEOUT_MS
        )
        response = await self._requests.send(request, self._coordinators[transactional_id], self._deadline)
        if response.error_code != 0:
            raise broker_error(response.error_code)

    async def _find_coordinators(self, wanted: str) -> None:
        """Look up the coordinator of ``wanted`` and of others that have none yet, which costs no more."""
        others = (other for _, _, other in self._due if other not in self._coordinators)
        keys = [wanted, *itertools.islice(others, _COORDINATORS_CHUNK - 1)]
        rows = await self._requests.coordinators(CoordinatorType.TRANSACTION, keys, self._deadline)
        for found in rows:
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
