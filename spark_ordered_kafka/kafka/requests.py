"""Requests to single brokers over kafka-python's network loop, with deadlines, retries and this package's errors.

``KafkaAdminClient`` offers no call with a deadline of its own, never forgets the id of a dead controller or of a
moved coordinator, and has no call that fences producers. So its connections are used, and the requests are made
of ``kafka.protocol`` here; this module and :mod:`spark_ordered_kafka.kafka.bootstrap` alone touch kafka-python's
private attributes.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.bootstrap import ASK_ANOTHER, REQUEST_TIMEOUT, connect
from spark_ordered_kafka.kafka.security import checked, uses_tokens

if TYPE_CHECKING:
    from spark_ordered_kafka.kafka.tokens import ClientCredentials

T = TypeVar("T")

_BOOTSTRAP_TIMEOUT = 10.0
_BACKOFF = wait_exponential(multiplier=0.02, max=0.5)

# How kafka-python ends the message of a connection that the other side refused.
_REFUSED = errno.errorcode[errno.ECONNREFUSED]

_KAFKA_CODES = frozenset(ErrorCode) - {
    ErrorCode.GUARD_RAILS,  # in Kafka itself 88 is UNSTABLE_OFFSET_COMMIT
    *(code for code in ErrorCode if code > 1000),
}


class IncompleteListing(kafka_errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """A listing may lack groups or transactions."""


class _QuotaUsedUpError(kafka_errors.ThrottlingQuotaExceededError):  # type: ignore[misc]  # kafka-python has no types
    """Kafka's quota on creations and deletions is used up for so many seconds (KIP-599)."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "the quota controller_mutation_rate lets this user or client create and delete no partitions for another "
            f"{seconds:.0f} s"
        )
        self.seconds = seconds


def broker_error(code: int, detail: str | None = None) -> kafka_errors.BrokerResponseError:
    """The exception for an error code in a response; ``detail`` is the broker's message or what it is about."""
    error: kafka_errors.BrokerResponseError = kafka_errors.for_code(code)(*([detail] if detail else []))
    return error


def check_mutation(row: Any, throttle_ms: int) -> None:
    """Raises if the ``row`` of a response to a creation or deletion has an error; ``throttle_ms`` is the response's."""
    if row.error_code == _QuotaUsedUpError.errno:
        raise _QuotaUsedUpError(throttle_ms / 1000)
    if row.error_code != 0:
        raise broker_error(row.error_code, row.error_message)


def is_transient(error: BaseException) -> bool:
    """Whether a read that failed with ``error`` may succeed a moment later, perhaps at another broker."""
    # A broker that is not in kafka-python's copy of the metadata has just joined or left. UNKNOWN_SERVER_ERROR is what a KRaft
    # controller says that has just started, and does not know its quorum's ACLs yet (D-496).
    # Not the errors below it, which stand for codes that kafka-python does not know.
    if isinstance(error, kafka_errors.UnknownBrokerIdError) or type(error) is kafka_errors.UnknownError:
        return True
    return isinstance(error, kafka_errors.KafkaError) and error.retriable


def was_not_executed(error: BaseException) -> bool:
    """Whether it is certain that a request that failed with ``error`` changed nothing, so that it may be repeated."""
    # A connection that was refused has carried nothing; one that was lost may have.
    if isinstance(error, kafka_errors.KafkaConnectionError):
        return any(_REFUSED in str(arg) for arg in error.args)
    return isinstance(
        error,
        (
            kafka_errors.NodeNotReadyError,
            kafka_errors.UnknownBrokerIdError,
            kafka_errors.NotControllerError,
            kafka_errors.ThrottlingQuotaExceededError,
        ),
    )


def translated(error: kafka_errors.KafkaError, what: str, servers: str) -> OrderedKafkaError:
    """``error`` as an error of this package; ``what`` says what was tried."""
    detail = ", ".join(str(arg) for arg in error.args)
    code = getattr(error, "errno", None)
    name = type(error).__name__ if code is None else error.message
    message = f"{name}: {detail}" if detail else name
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_transient(error):
        return UnavailableError(f"{what}: not done in time by Kafka at {servers}; last error: {message}")
    if code in _KAFKA_CODES:
        return RequestError(ErrorCode(code), f"{what}: {detail or error.description}")
    return RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: {message}")


def refusal(code: int, message: str | None, what: str) -> RequestError:
    """What a broker answered for one row of a request, by its own code; UNKNOWN_SERVER_ERROR for one not in ErrorCode."""
    error = broker_error(code)
    if code in _KAFKA_CODES:
        return RequestError(ErrorCode(code), f"{what}: {message or error.description}")
    return RequestError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: {error.message}: {message or error.description}"
    )


class BrokerRequests:
    """Connections to the brokers of one cluster, for use by any number of threads.

    Coroutines handed to :meth:`retry` and :meth:`start` run on the network loop's own thread: they may await what
    this class offers, and must not block.

    ``properties`` are those of the connection, by librdkafka's names; ``servers`` its ``bootstrap.servers``.

    Args:
        kafka: librdkafka's properties (:func:`~spark_ordered_kafka.kafka.security.checked`), or ``bootstrap.servers``
            alone.
        timeout: seconds within which one of the servers must have answered (10 at most).

    Raises:
        ConfigError: a property is wrong, or does not fit the brokers' listener.
        RequestError: SASL_AUTHENTICATION_FAILED.
        UnavailableError: none of the servers answers.
    """

    def __init__(self, kafka: Mapping[str, str] | str, timeout: float) -> None:
        self.properties = checked(kafka)
        self.servers = self.properties["bootstrap.servers"]
        self._tokens = _tokens(self.properties)
        self._renew_token()
        self._client, self._manager = connect(self.properties, min(timeout, _BOOTSTRAP_TIMEOUT), self._tokens)
        self._closed = False

    def retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        deadline: float,
        what: str,
        *,
        transient: Callable[[BaseException], bool] = is_transient,
    ) -> T:
        """Run ``attempt(deadline)`` until it returns, raises something not ``transient``, or the deadline is reached.

        Args:
            deadline: in ``time.monotonic()`` seconds.
            what: begins the message of an error, as "create topic 'x'".

        Raises:
            RequestError: Kafka refused.
            UnavailableError: no success before the deadline.
        """
        retrying = Retrying(
            retry=retry_if_exception(transient),
            wait=_until_next,
            stop=partial(_next_attempt_is_late, deadline),
            reraise=True,
        )
        try:
            self._renew_token()
            result: T = retrying(self._run, attempt, deadline)
            return result
        except kafka_errors.KafkaError as error:
            raise translated(error, what, self.servers) from error

    def _renew_token(self) -> None:
        if self._tokens is not None:
            self._tokens.renew()

    def start(self, coroutine: Awaitable[T]) -> Any:
        """Run a coroutine on the network loop; returns kafka-python's future of it at once."""
        try:
            return self._manager.call_soon(coroutine)
        except RuntimeError as error:
            raise self._explained(error) from error

    async def send(
        self,
        request: Any,
        node: int | None,
        deadline: float,
        *,
        timeout: float = REQUEST_TIMEOUT,
        apart: bool = False,
    ) -> Any:
        """The response of broker ``node`` (None: of any) to a request of ``kafka.protocol``.

        ``apart``: it may come late, since the broker waits for others or a quota is used up; nothing else waits for that
        (D-484).

        Raises:
            kafka.errors.KafkaError: no response within ``timeout`` seconds or before the deadline.
        """
        remaining = min(deadline - time.monotonic(), timeout)
        if remaining <= 0:
            raise kafka_errors.KafkaTimeoutError("the deadline was reached")
        try:
            return await (self._send_apart if apart else self._send)(request, node, remaining)
        except kafka_errors.KafkaError as error:
            to = "any broker" if node is None else f"broker {node}"
            raise type(error)(f"{to}: {', '.join(map(str, error.args)) or 'connection lost'}") from error

    async def gather(self, coroutines: Iterable[Awaitable[T]]) -> list[T]:
        """Run coroutines at the same time; their results in order, or the first one's error."""
        futures = [self.start(coroutine) for coroutine in coroutines]
        return [await future for future in futures]

    async def settle(self, coroutines: Iterable[Awaitable[T]]) -> list[T | kafka_errors.KafkaError]:
        """As :meth:`gather`, but with the error of each that fails in its place."""
        outcomes: list[T | kafka_errors.KafkaError] = []
        for future in [self.start(coroutine) for coroutine in coroutines]:
            try:
                outcomes.append(await future)
            except kafka_errors.KafkaError as error:
                outcomes.append(error)
        return outcomes

    async def most(self, coroutines: Iterable[Awaitable[T]], patience: float) -> list[T]:
        """Results of more than half of the coroutines (one or more), and of others that end within ``patience`` seconds after.

        Raises the error because of which there is no such majority.
        """
        futures = [self.start(coroutine) for coroutine in coroutines]
        majority, every = Future(), Future()

        def settled(_: object) -> None:
            done = [future for future in futures if future.is_done]
            failed = [future.exception for future in done if future.failed()]
            if not majority.is_done and 2 * (len(done) - len(failed)) > len(futures):
                majority.success(None)
            if not majority.is_done and 2 * len(failed) >= len(futures):
                majority.failure(failed[-1])
            if not every.is_done and len(done) == len(futures):
                every.success(None)

        for future in futures:
            future.add_both(settled)
        await majority
        with suppress(kafka_errors.KafkaTimeoutError):
            await self._manager.wait_for(every, 1000 * patience)
        return [future.value for future in futures if future.succeeded()]

    async def sleep(self, seconds: float) -> None:
        """Let the network loop do other things for a while."""
        await self._manager.net.sleep(seconds)

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster, as of the last metadata that came, also such as kafka-python asked for by itself."""
        return str(self._manager.cluster.cluster_id)

    async def metadata(self, topics: Iterable[str] | None, node: int | None, deadline: float) -> Any:
        """``MetadataResponse`` of broker ``node`` (None: of any) for ``topics`` (None: all)."""
        wanted = (
            None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found = await self._metadata(request, node, deadline)
        # kafka-python's own requests may come later: a cluster that was set up anew would be taken for the one before.
        self._manager.cluster.cluster_id = found.cluster_id
        return found

    async def _metadata(self, request: Any, node: int | None, deadline: float) -> Any:
        if node is None:
            asked = self.start(self.send(request, None, deadline))
            try:
                return await self._manager.wait_for(asked, 1000 * ASK_ANOTHER)
            except kafka_errors.KafkaTimeoutError:
                if asked.is_done:
                    raise
            # That one hangs, perhaps. It has a request in flight now, so kafka-python takes another one.
        return await self.send(request, node, deadline)

    async def coordinators(self, kind: CoordinatorType, keys: Sequence[str], deadline: float) -> list[Any]:
        """A row for each of ``keys``, consumer groups or transactional ids (FindCoordinator, KIP-699)."""
        request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=list(keys), min_version=4)
        rows: list[Any] = (await self.send(request, None, deadline)).coordinators
        return rows

    async def brokers(self, deadline: float) -> list[Any]:
        """Rows of the live brokers, as one of them knows them; raises StaleMetadata if it knows of none."""
        rows: list[Any] = (await self.metadata([], None, deadline)).brokers
        if not rows:
            # A broker has answered, so one lives: it has just started, and its own metadata does not show it yet.
            raise kafka_errors.StaleMetadata("the broker that was asked knows of none")
        return rows

    async def broker_ids(self, deadline: float) -> list[int]:
        """The ids of :meth:`brokers`."""
        return [row.node_id for row in await self.brokers(deadline)]

    def close(self) -> None:
        """Close the connections and end the network loop. Calls under way fail with UnavailableError."""
        self._closed = True
        self._client.close()

    async def _send_apart(self, request: Any, node: int | None, remaining: float) -> Any:
        broker = self._manager.least_loaded_node() if node is None else node
        await self._look_up(broker, remaining)
        with self._manager.apart(broker) as connection:
            return await self._send(request, connection, remaining)

    async def _send(self, request: Any, node: int | str | None, remaining: float) -> Any:
        await self._look_up(node, remaining)
        # The request's own timeout does not count while the connection is being set up.
        response = self._manager.send(request, node_id=node, request_timeout_ms=1000 * remaining)
        return await self._manager.wait_for(response, 1000 * remaining)

    async def _look_up(self, node: int | str | None, remaining: float) -> None:
        if node is not None and self._manager.cluster.broker_metadata(node) is None:
            await self._manager.wait_for(
                self.start(self._manager.cluster.refresh_metadata()), 1000 * remaining
            )

    def _run(self, attempt: Callable[[float], Awaitable[T]], deadline: float) -> T:
        try:
            result: T = self._manager.run(attempt, deadline)
        except RuntimeError as error:
            raise self._explained(error) from error
        return result

    def _explained(self, error: RuntimeError) -> Exception:
        if self._closed:
            return UnavailableError(f"the connections to Kafka at {self.servers} were closed")
        return error


class BrokerCalls:
    """Calls to one cluster, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        timeout: seconds for each call, and for each 1,000 topics, partitions or replicas.
    """

    def __init__(self, requests: BrokerRequests, timeout: float = 30.0) -> None:
        self._requests = requests
        self._timeout = timeout

    def _retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        what: str,
        *,
        transient: Callable[[BaseException], bool] = is_transient,
    ) -> T:
        """:meth:`BrokerRequests.retry` within the timeout."""
        return self._requests.retry(attempt, time.monotonic() + self._timeout, what, transient=transient)


def _tokens(properties: Mapping[str, str]) -> ClientCredentials | None:
    if not uses_tokens(properties):
        return None
    # Imports an HTTP client, which other logins do without.
    from spark_ordered_kafka.kafka.tokens import ClientCredentials

    return ClientCredentials(properties)


def _until_next(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return error.seconds if isinstance(error, _QuotaUsedUpError) else _BACKOFF(state)


def _next_attempt_is_late(deadline: float, state: RetryCallState) -> bool:
    return time.monotonic() + state.upcoming_sleep >= deadline
