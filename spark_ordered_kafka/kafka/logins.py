"""Why brokers refuse a librdkafka client: its login, or a certificate."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import KafkaError

from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.clients import wait_for

# The alerts of TLS (RFC 8446, 6.2) about certificates, and what OpenSSL says of a server's certificate. Other errors of
# TLS also come from a broker that stops in the middle of a handshake.
_CERTIFICATE = re.compile(r"certificate|unknown ca", re.IGNORECASE)
# Seconds between two looks whether a broker has refused the client.
_POLL_INTERVAL = 0.05
_ALERT = re.compile(r"\balert\b", re.IGNORECASE)


class BrokerErrors:
    """The ``error_cb`` of a client, which notes why brokers refuse it (D-275).

    After a refused login librdkafka tries again without end, and a call that waits for a broker only runs out of time: the
    reason comes by ``error_cb`` alone.

    Args:
        kafka: the client's properties.
        then: another callback, which gets every error as well.
    """

    def __init__(self, kafka: Mapping[str, Any], then: Callable[[KafkaError], object] | None = None) -> None:
        self._kafka = kafka
        self._then = then
        self._refused: KafkaError | None = None
        self._last: KafkaError | None = None
        self.lost = 0
        """How often a connection was lost, or could not be made."""

    def __call__(self, error: KafkaError) -> None:
        # That all brokers are down says less than the error of each before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last = error
        if error.code() == KafkaError._TRANSPORT:
            self.lost += 1
        if _is_refusal(error):
            self._refused = error
        if self._then is not None:
            self._then(error)

    @property
    def has_refusal(self) -> bool:
        """Whether a broker has refused the client."""
        return self._refused is not None

    def forget(self) -> None:
        """Forget what was refused before a client got an answer."""
        self._refused = self._last = None

    def check(self) -> None:
        """Raises RequestError SASL_AUTHENTICATION_FAILED or ConfigError if a broker has refused the client."""
        if self._refused is not None:
            raise _refusal(self._refused, self._kafka)

    def explained(self, error: OrderedKafkaError) -> OrderedKafkaError:
        """An UnavailableError with the last error of a broker's connection, if there was one; others as they are."""
        if self._last is None or not isinstance(error, UnavailableError):
            return error
        return type(error)(f"{error}; the last error of a connection: {self._last.str()}")

    def await_done(self, future: Future[Any], timeout: float, poll: Callable[[float], object]) -> None:
        """Wait ``timeout`` seconds at most; raises as :meth:`check` as soon as a broker refuses the client.

        ``poll`` serves the client's callbacks: the admin client does that for its answers only.
        """
        deadline = time.monotonic() + timeout
        while not future.done() and (left := deadline - time.monotonic()) > 0:
            wait((future,), min(_POLL_INTERVAL, left))
            poll(0.0)
            self.check()

    def wait_for(
        self, future: Future[Any], timeout: float, doing: str, poll: Callable[[float], object]
    ) -> Any:
        """As :func:`~spark_ordered_kafka.kafka.clients.wait_for`; raises as :meth:`await_done`, too."""
        self.await_done(future, timeout, poll)
        try:
            return wait_for(future, timeout, doing)
        except UnavailableError as error:
            raise self.explained(error) from error


def _is_refusal(error: KafkaError) -> bool:
    if error.code() == KafkaError._SSL:
        return _CERTIFICATE.search(error.str()) is not None
    return bool(error.code() == KafkaError._AUTHENTICATION)


def _refusal(error: KafkaError, kafka: Mapping[str, Any]) -> OrderedKafkaError:
    said = error.str()
    if error.code() == KafkaError._SSL:
        if _ALERT.search(said) is not None:
            hint = f"the brokers refused the TLS connection, give a certificate that they trust ({said})"
            return ConfigError("ssl.certificate.location", kafka.get("ssl.certificate.location"), hint)
        hint = f"give the authority that signed the brokers' certificates ({said})"
        return ConfigError("ssl.ca.location", kafka.get("ssl.ca.location"), hint)
    user = next(
        (kafka[name] for name in ("sasl.username", "sasl.oauthbearer.client.id") if name in kafka), None
    )
    return RequestError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"Kafka refuses the login{f' of user {user!r}' if user else ''} ({said})",
    )
