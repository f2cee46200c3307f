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

PROVEN_FOR = 60.0
"""Seconds for which a password that Kafka has accepted is not proven again."""
REFUSED_FOR = 5.0
"""The same of one that Kafka has refused: the user may have just been made."""

_CONCURRENT = 4
_MAX_PENDING = 64
_REMEMBERED = 10_000
# After failures of a user at an address, so many seconds lie between the proofs that it may ask for.
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 5.0
_FORGIVEN_AFTER = 60.0
_MAX_WAIT = 10.0
# Failures per second, and at once, from an address and in all.
_NETWORK_BUDGET = (5.0, 50)
_WHOLE_BUDGET = (20.0, 200)

_log = logging.getLogger(__name__)
_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
# kafka-python writes an error and a warning from each of them for every login that is refused.
_CHATTY = ("kafka.net.connection", "kafka.net.manager", "kafka.net.transport")


def kafka_login(kafka: Mapping[str, str], mechanism: str, timeout: float) -> Callable[[str, str], bool]:
    """``login(username, password)``: whether Kafka accepts them, by a connection of their own.

    Args:
        kafka: the controller's own properties, of which everything but ``sasl.*`` is used.
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

    for name in _CHATTY:
        logging.getLogger(name).addFilter(_not_about_refusals)

    def login(username: str, password: str) -> bool:
        # kafka-python sends a name as it is, while RFC 5802 wants these two escaped: a name could add attributes.
        name = username
        if mechanism.startswith("SCRAM-"):
            name = username.replace("=", "=3D").replace(",", "=2C")
        own = {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        try:
            BrokerRequests({**kafka, **own}, timeout).close()
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
class _Guesser:
    """What failures cost: no proof is begun before ``next_at``."""

    failures: int = 0
    failed_at: float = 0.0
    next_at: float = 0.0


class Throttle:
    """Spaces out the proofs that somebody may ask for once passwords were refused. Not safe to share.

    Who goes on guessing gets one proof per 5 seconds; who fails now and then notices nothing. ``who`` is a user at an
    address: behind a proxy all have one, and must not wait for each other's failures; and a user who is guessed at from
    somewhere else must not be locked out. Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._guessers: OrderedDict[Hashable, _Guesser] = OrderedDict()

    def reserve(self, who: Hashable, now: float) -> float:
        """When the next proof for ``who`` may begin; the ones after it are kept at a distance.

        Raises:
            UnavailableError: too many are waiting already.
        """
        known = self._guessers.get(who)
        if known is None or now - known.failed_at >= _FORGIVEN_AFTER:
            return now
        at = max(now, known.next_at)
        if at - now > _MAX_WAIT:
            raise UnavailableError("too many failed logins of this user from this address; try again later")
        known.next_at = at + self._delay(known)
        return at

    def failed(self, who: Hashable, now: float) -> None:
        """Take note of a password that was refused."""
        known = self._guessers.setdefault(who, _Guesser())
        if now - known.failed_at >= _FORGIVEN_AFTER:
            known.failures = 0
        known.failures += 1
        known.failed_at = now
        known.next_at = max(known.next_at, now + self._delay(known))
        self._guessers.move_to_end(who)
        _forget_oldest(self._guessers)

    @staticmethod
    def _delay(guesser: _Guesser) -> float:
        return min(_FIRST_DELAY * 2.0 ** min(guesser.failures - 1, 10), _LONGEST_DELAY)


class Budget:
    """How many proofs may fail, at a rate and with a burst before it counts (GCRA). Not safe to share.

    Without it, whoever tries a few passwords for each of many users would never be slowed. Times as in :class:`Throttle`.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval = 1.0 / per_second
        self._burst = burst * self._interval
        # By whom, when what is spent will be earned again.
        self._spent: OrderedDict[Hashable, float] = OrderedDict()

    def reserve(self, who: Hashable, now: float) -> float:
        """When the next proof for ``who`` may begin. It counts as failed until :meth:`refund`.

        Raises:
            UnavailableError: too many are waiting already.
        """
        spent = max(self._spent.get(who, now), now)
        at = max(now, spent - self._burst)
        if at - now > _MAX_WAIT:
            raise UnavailableError("too many failed logins; try again later")
        self._spent[who] = spent + self._interval
        self._spent.move_to_end(who)
        _forget_oldest(self._spent)
        return at

    def refund(self, who: Hashable) -> None:
        """A proof has not failed."""
        if who in self._spent:
            self._spent[who] -= self._interval


def _forget_oldest(kept: OrderedDict[_KeyT, _ValueT]) -> None:
    while len(kept) > _REMEMBERED:
        kept.popitem(last=False)


@dataclass(frozen=True)
class _Asked:
    """A password to be proven. ``key`` is its hash; ``paid``: it counts against the budgets, unless it is right."""

    key: bytes
    username: str
    password: str = field(repr=False)
    host: str
    paid: bool = False

    @property
    def network(self) -> str:
        """The address; of IPv6 the /64, for that is what one machine may have (RFC 6177)."""
        return ":".join(self.host.split(":")[:4])

    @property
    def guesser(self) -> Hashable:
        """Who is slowed when it is wrong."""
        return self.network, self.username


class PasswordProver:
    """Whether passwords are right. Kafka is asked in few threads at a time, and once for those who ask the same.

    Guesses are slowed by user and address, and bounded by address and in all. A password that was right before waits for
    none of that, and has a thread of its own: whoever guesses keeps nobody out who has been in.

    Passwords are not kept: answers are found by a keyed hash, whose key is this object's own. Safe to share between
    threads and event loops.

    Args:
        login: asks Kafka, see :func:`kafka_login`.
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
        # When they were. Apart, so that guesses do not make right ones be forgotten.
        self._right: OrderedDict[bytes, float] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._pending: dict[bytes, Future[bool]] = {}
        self._threads = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="passwords")
        self._first = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="passwords-first")

    async def proves(self, username: str, password: str, host: str) -> bool:
        """Whether Kafka accepts the password; ``host`` is the address that it came from.

        Raises:
            UnavailableError: Kafka cannot be asked, or too much is being asked.
        """
        asked = _Asked(self._hash(username, password), username, password, host)
        key = asked.key
        with self._lock:
            known = self._known(key)
            if known is not None:
                return known
            now = begin = self._clock()
            if key not in self._pending and key not in self._right:
                begin = self._reserve(asked, now)
                asked = replace(asked, paid=True)
        if begin > now:
            await self._sleep(begin - now)
        with self._lock:
            # What was asked for while this request waited.
            known, pending = self._known(key), self._pending.get(key)
            if known is not None or pending is not None:
                self._refund(asked)
            if known is not None:
                return known
            if pending is None:
                pending = self._start(asked)
        # Others wait for the same answer: a request that is given up must not cancel it.
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(pending)), _MAX_WAIT)
        except TimeoutError as error:
            raise UnavailableError(f"Kafka has not judged the password within {_MAX_WAIT:g} s") from error

    def close(self) -> None:
        """Answer nothing any more."""
        for threads in (self._first, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _hash(self, username: str, password: str) -> bytes:
        name = username.encode()
        return hmac.digest(self._key, len(name).to_bytes(8, "big") + name + password.encode(), "sha256")

    def _known(self, key: bytes) -> bool | None:
        now = self._clock()
        for answer, answers, kept_for in (
            (True, self._right, PROVEN_FOR),
            (False, self._refused, REFUSED_FOR),
        ):
            at = answers.get(key)
            if at is not None and now - at < kept_for:
                return answer
        return None

    def _reserve(self, asked: _Asked, now: float) -> float:
        """When it may be proven. Who is too early by one of the three rules spends nothing of the next."""
        times = [self._throttle.reserve(asked.guesser, now), self._by_network.reserve(asked.network, now)]
        try:
            times.append(self._by_all.reserve(None, now))
        except UnavailableError:
            self._by_network.refund(asked.network)
            raise
        return max(times)

    def _refund(self, asked: _Asked) -> None:
        if asked.paid:
            self._by_network.refund(asked.network)
            self._by_all.refund(None)

    def _start(self, asked: _Asked) -> Future[bool]:
        is_first = asked.key in self._right
        if not is_first and len(self._pending) >= _MAX_PENDING:
            self._refund(asked)
            raise UnavailableError("too many logins are being proven; try again in a moment")
        try:
            pending = (self._first if is_first else self._threads).submit(self._prove, asked)
        except RuntimeError as error:
            raise UnavailableError("the controller is ending") from error
        self._pending[asked.key] = pending
        return pending

    def _prove(self, asked: _Asked) -> bool:
        # The answer counts from before the question: a password that is changed meanwhile is not kept for longer.
        at = self._clock()
        try:
            proven = self._login(asked.username, asked.password)
        except Exception as error:
            # Also when this process has no files left, say: or this password could never be proven again.
            with self._lock:
                self._pending.pop(asked.key, None)
                self._refund(asked)
            if not isinstance(error, OrderedKafkaError):
                raise
            _log.warning("the password of a user cannot be proven: %s", error)
            raise UnavailableError("Kafka cannot be asked whether the password is right") from error
        with self._lock:
            self._pending.pop(asked.key, None)
            answers, others = (self._right, self._refused) if proven else (self._refused, self._right)
            others.pop(asked.key, None)
            answers[asked.key] = at
            answers.move_to_end(asked.key)
            _forget_oldest(answers)
            if proven:
                self._refund(asked)
            else:
                self._throttle.failed(asked.guesser, self._clock())
        return proven
