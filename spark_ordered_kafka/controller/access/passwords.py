"""Users and passwords, proven by logging in to Kafka with them."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.kafka.security import LOGIN

ACCEPTED_TTL = 60.0
"""Seconds for which a password that Kafka has accepted is not proven again."""
REFUSED_TTL = 5.0
"""The same for a password that Kafka has refused: the user may have been created since."""

MAX_PENDING = 64
"""Logins that are pending."""
MAX_ENTRIES = 10_000
"""Answers of one kind, and sources of failures, that are kept."""
_CONCURRENT = 4
# Delay in seconds between logins of a user at an address after failures: the first, and the longest.
_FIRST_DELAY, _MAX_DELAY = 0.1, 5.0
_FAILURES_TTL = 60.0
_MAX_WAIT = 10.0
# Failures per second and burst, per address and in total.
_NETWORK_BUDGET = (5.0, 50)
_WHOLE_BUDGET = (20.0, 200)

_log = logging.getLogger(__name__)
_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
# kafka-python writes an error and a warning from each of them for every login that is refused.
_NOISY_LOGGERS = ("kafka.net.connection", "kafka.net.manager", "kafka.net.transport")


def kafka_login(kafka: Mapping[str, str], mechanism: str, timeout: float) -> Callable[[str, str], bool]:
    """``login(username, password)``: whether Kafka accepts them, by a connection of their own.

    Args:
        kafka: the controller's own properties, of which everything but its own login is used.
        mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        timeout: seconds for a broker to answer.

    Raises:
        ConfigError: the controller's listener knows no SASL.
    """
    protocol = kafka.get("security.protocol", "PLAINTEXT")
    if not protocol.upper().startswith("SASL_"):
        raise ConfigError(
            "authentication.kafka.mechanism",
            mechanism,
            f"kafka.security.protocol must be SASL_SSL or SASL_PLAINTEXT for that, and is {protocol}",
        )

    for name in _NOISY_LOGGERS:
        logging.getLogger(name).addFilter(_not_about_refusals)

    anybody = {name: value for name, value in kafka.items() if name not in LOGIN}

    def login(username: str, password: str) -> bool:
        # kafka-python sends a name as it is, while RFC 5802 wants these two escaped: a name could add attributes.
        name = username
        if mechanism.startswith("SCRAM-"):
            name = username.replace("=", "=3D").replace(",", "=2C")
        own = {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        try:
            BrokerRequests(anybody | own, timeout).close()
        except RequestError as error:
            if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                return False
            raise
        return True

    return login


def _not_about_refusals(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    return "SaslAuthenticationFailed" not in text and ErrorCode.SASL_AUTHENTICATION_FAILED.name not in text


@dataclass
class _Failures:
    """Failures of a source: no login begins before ``next_at``."""

    failures: int = 0
    failed_at: float = 0.0
    next_at: float = 0.0


class Throttle:
    """Delays further logins of a source after refused ones. Not thread-safe.

    Continued guessing gets one login per 5 seconds; an occasional failure has no noticeable effect. A ``source`` is a user
    at an address: behind a proxy all users share one address, and must not wait for each other's failures; and guesses from
    elsewhere must not lock a user out. Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[Hashable, _Failures] = OrderedDict()

    def reserve(self, source: Hashable, now: float) -> float:
        """When the next login of ``source`` may begin; delays the ones after it.

        Raises:
            UnavailableError: too many are waiting already.
        """
        known = self._failures.get(source)
        if known is None or now - known.failed_at >= _FAILURES_TTL:
            return now
        at = max(now, known.next_at)
        if at - now > _MAX_WAIT:
            raise UnavailableError("too many failed logins of this user from this address; try again later")
        known.next_at = at + self._delay(known)
        return at

    def failed(self, source: Hashable, now: float) -> None:
        """Record a refused password."""
        known = self._failures.setdefault(source, _Failures())
        if now - known.failed_at >= _FAILURES_TTL:
            known.failures = 0
        known.failures += 1
        known.failed_at = now
        known.next_at = max(known.next_at, now + self._delay(known))
        self._failures.move_to_end(source)
        _forget_oldest(self._failures)

    @staticmethod
    def _delay(known: _Failures) -> float:
        return min(_FIRST_DELAY * 2.0 ** min(known.failures - 1, 10), _MAX_DELAY)


class Budget:
    """Limits failed logins to a rate with a burst (GCRA). Not thread-safe.

    Slows callers that try a few passwords for each of many users. Times as in :class:`Throttle`.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval = 1.0 / per_second
        self._burst = burst * self._interval
        # By source, when its spent budget is restored.
        self._spent: OrderedDict[Hashable, float] = OrderedDict()

    def reserve(self, source: Hashable, now: float) -> float:
        """When the next login of ``source`` may begin. It counts as failed until :meth:`refund`.

        Raises:
            UnavailableError: too many are waiting already.
        """
        spent = max(self._spent.get(source, now), now)
        at = max(now, spent - self._burst)
        if at - now > _MAX_WAIT:
            raise UnavailableError("too many failed logins; try again later")
        self._spent[source] = spent + self._interval
        self._spent.move_to_end(source)
        _forget_oldest(self._spent)
        return at

    def refund(self, source: Hashable) -> None:
        """Give the budget back: the login has not failed."""
        if source in self._spent:
            self._spent[source] -= self._interval


def _forget_oldest(kept: OrderedDict[_KeyT, _ValueT]) -> None:
    while len(kept) > MAX_ENTRIES:
        kept.popitem(last=False)


@dataclass(frozen=True)
class _Attempt:
    """A login to check. ``key`` is the password's hash; ``charged``: it uses the budgets, unless it is right."""

    key: bytes
    username: str
    password: str = field(repr=False)
    host: str
    charged: bool = False

    @property
    def network(self) -> str:
        """The address; for IPv6 the /64, which one machine may have (RFC 6177)."""
        return ":".join(self.host.split(":")[:4])

    @property
    def source(self) -> Hashable:
        """The source to slow down when the password is wrong."""
        return self.network, self.username


class PasswordProver:
    """Checks passwords by logins to Kafka, few at a time, and one for equal requests that wait.

    Guesses are slowed by user and address, and limited by address and in total (D-159). A password that was accepted before
    skips the limits and has threads of its own, so guessing does not block active users.

    Answers are cached by a keyed hash with a random key of this object; passwords are not kept. Thread-safe, also between
    event loops.

    Args:
        login: see :func:`kafka_login`.
        clock: a monotonic clock in seconds.
        sleep: waits seconds without blocking the event loop.
    """

    def __init__(
        self,
        login: Callable[[str, str], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._login = login
        self._clock = clock
        self._sleep = sleep
        self._key: Final = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._throttle = Throttle()
        self._by_network = Budget(*_NETWORK_BUDGET)
        self._by_all = Budget(*_WHOLE_BUDGET)
        # When each was checked. Two maps, so that guesses do not evict accepted passwords.
        self._right: OrderedDict[bytes, float] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._pending: dict[bytes, Future[bool]] = {}
        self._threads = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="passwords")
        self._first = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="passwords-first")

    async def proves(self, username: str, password: str, host: str) -> bool:
        """Whether Kafka accepts the password; ``host`` is the address that it came from.

        Raises:
            UnavailableError: Kafka does not answer, or too many logins are pending.
        """
        attempt = _Attempt(self._hash(username, password), username, password, host)
        key = attempt.key
        with self._lock:
            known = self._known(key)
            if known is not None:
                return known
            now = begin = self._clock()
            if key not in self._pending and key not in self._right:
                begin = self._reserve(attempt, now)
                attempt = replace(attempt, charged=True)
        if begin > now:
            await self._sleep(begin - now)
        with self._lock:
            # Another request may have got the answer in the meantime.
            known, pending = self._known(key), self._pending.get(key)
            if known is not None or pending is not None:
                self._refund(attempt)
            if known is not None:
                return known
            if pending is None:
                pending = self._start(attempt)
        # Shielded, since other requests wait for the same answer.
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(pending)), _MAX_WAIT)
        except TimeoutError as error:
            raise UnavailableError(f"Kafka has not judged the password within {_MAX_WAIT:g} s") from error

    def close(self) -> None:
        """Stop checking passwords."""
        for threads in (self._first, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _hash(self, username: str, password: str) -> bytes:
        name = username.encode()
        return hmac.digest(self._key, len(name).to_bytes(8, "big") + name + password.encode(), "sha256")

    def _known(self, key: bytes) -> bool | None:
        now = self._clock()
        for answer, answers, ttl in (
            (True, self._right, ACCEPTED_TTL),
            (False, self._refused, REFUSED_TTL),
        ):
            at = answers.get(key)
            if at is not None and now - at < ttl:
                return answer
        return None

    def _reserve(self, attempt: _Attempt, now: float) -> float:
        """When the login may begin. A login that one of the three limits rejects uses up none of the others."""
        times = [self._by_network.reserve(attempt.network, now)]
        try:
            times.append(self._by_all.reserve(None, now))
        except UnavailableError:
            self._by_network.refund(attempt.network)
            raise
        try:
            # Last: a delay cannot be given back.
            times.append(self._throttle.reserve(attempt.source, now))
        except UnavailableError:
            self._by_network.refund(attempt.network)
            self._by_all.refund(None)
            raise
        return max(times)

    def _refund(self, attempt: _Attempt) -> None:
        if attempt.charged:
            self._by_network.refund(attempt.network)
            self._by_all.refund(None)

    def _start(self, attempt: _Attempt) -> Future[bool]:
        is_first = attempt.key in self._right
        if not is_first and len(self._pending) >= MAX_PENDING:
            self._refund(attempt)
            raise UnavailableError("too many logins are being proven; try again in a moment")
        try:
            pending = (self._first if is_first else self._threads).submit(self._prove, attempt)
        except RuntimeError as error:
            raise UnavailableError("the controller is ending") from error
        self._pending[attempt.key] = pending
        return pending

    def _prove(self, attempt: _Attempt) -> bool:
        # The age of the answer counts from before the login: the password may change during it.
        at = self._clock()
        try:
            proven = self._login(attempt.username, attempt.password)
        except Exception as error:
            # Also for unexpected errors (no file descriptors left), or this password could never be checked again.
            with self._lock:
                self._pending.pop(attempt.key, None)
                self._refund(attempt)
            if not isinstance(error, OrderedKafkaError):
                raise
            _log.warning("the password of a user cannot be proven: %s", error)
            raise UnavailableError("Kafka cannot be asked whether the password is right") from error
        with self._lock:
            self._pending.pop(attempt.key, None)
            answers, others = (self._right, self._refused) if proven else (self._refused, self._right)
            others.pop(attempt.key, None)
            answers[attempt.key] = at
            answers.move_to_end(attempt.key)
            _forget_oldest(answers)
            if proven:
                self._refund(attempt)
            else:
                self._throttle.failed(attempt.source, self._clock())
        return proven
