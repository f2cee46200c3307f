"""Users and passwords, proven by logging in to Kafka with them."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

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
# After failures of a host, so many seconds lie between the proofs that it may ask for.
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 5.0
_FORGIVEN_AFTER = 60.0
_MAX_WAIT = 10.0

_log = logging.getLogger(__name__)
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
class _Host:
    """What a host's failures cost it: no proof is begun before ``next_at``."""

    failures: int = 0
    failed_at: float = 0.0
    next_at: float = 0.0


class Throttle:
    """Spaces out the proofs that a host may ask for once its passwords were refused. Not safe to share.

    A host that goes on guessing gets one proof per 5 seconds; one that fails now and then notices nothing. Times are
    seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def reserve(self, host: str, now: float) -> float:
        """When the next proof for ``host`` may begin; the ones after it are kept at a distance.

        Raises:
            UnavailableError: too many are waiting already.
        """
        known = self._hosts.get(host)
        if known is None or now - known.failed_at >= _FORGIVEN_AFTER:
            return now
        at = max(now, known.next_at)
        if at - now > _MAX_WAIT:
            raise UnavailableError("too many failed logins from this host; try again later")
        known.next_at = at + self._delay(known)
        return at

    def failed(self, host: str, now: float) -> None:
        """Take note of a password that was refused."""
        known = self._hosts.setdefault(host, _Host())
        if now - known.failed_at >= _FORGIVEN_AFTER:
            known.failures = 0
        known.failures += 1
        known.failed_at = now
        known.next_at = max(known.next_at, now + self._delay(known))
        self._hosts.move_to_end(host)
        while len(self._hosts) > _REMEMBERED:
            self._hosts.popitem(last=False)

    @staticmethod
    def _delay(host: _Host) -> float:
        return min(_FIRST_DELAY * 2.0 ** min(host.failures - 1, 10), _LONGEST_DELAY)


class PasswordProver:
    """Whether passwords are right. Kafka is asked in few threads at a time, and once for those who ask the same.

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
        self._answers: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._pending: dict[bytes, Future[bool]] = {}
        self._threads = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="passwords")

    async def proves(self, username: str, password: str, host: str) -> bool:
        """Whether Kafka accepts the password; ``host`` is the address that it came from.

        Raises:
            UnavailableError: Kafka cannot be asked, or too much is being asked.
        """
        key = self._hash(username, password)
        with self._lock:
            known = self._known(key)
            if known is not None:
                return known
            now = self._clock()
            begin = now if key in self._pending else self._throttle.reserve(host, now)
        if begin > now:
            await self._sleep(begin - now)
        with self._lock:
            # What was asked for while this request waited.
            known = self._known(key)
            if known is not None:
                return known
            pending = self._pending.get(key)
            if pending is None:
                if len(self._pending) >= _MAX_PENDING:
                    raise UnavailableError("too many logins are being proven; try again in a moment")
                pending = self._start(key, username, password, host)
        # Others wait for the same answer: a request that is given up must not cancel it.
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(pending)), _MAX_WAIT)
        except TimeoutError as error:
            raise UnavailableError(f"Kafka has not judged the password within {_MAX_WAIT:g} s") from error

    def close(self) -> None:
        """Answer nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _hash(self, username: str, password: str) -> bytes:
        name = username.encode()
        return hmac.digest(self._key, len(name).to_bytes(8, "big") + name + password.encode(), "sha256")

    def _known(self, key: bytes) -> bool | None:
        answer = self._answers.get(key)
        if answer is None:
            return None
        proven, at = answer
        if self._clock() - at < (PROVEN_FOR if proven else REFUSED_FOR):
            return proven
        del self._answers[key]
        return None

    def _start(self, key: bytes, username: str, password: str, host: str) -> Future[bool]:
        try:
            pending = self._threads.submit(self._prove, key, username, password, host)
        except RuntimeError as error:
            raise UnavailableError("the controller is ending") from error
        self._pending[key] = pending
        return pending

    def _prove(self, key: bytes, username: str, password: str, host: str) -> bool:
        # The answer counts from before the question: a password that is changed meanwhile is not kept for longer.
        at = self._clock()
        try:
            proven = self._login(username, password)
        except Exception as error:
            # Also when this process has no files left, say: or this password could never be proven again.
            with self._lock:
                self._pending.pop(key, None)
            if not isinstance(error, OrderedKafkaError):
                raise
            _log.warning("the password of a user cannot be proven: %s", error)
            raise UnavailableError("Kafka cannot be asked whether the password is right") from error
        with self._lock:
            self._pending.pop(key, None)
            self._answers[key] = (proven, at)
            self._answers.move_to_end(key)
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
            if not proven:
                self._throttle.failed(host, self._clock())
        return proven
