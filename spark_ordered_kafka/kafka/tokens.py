"""Tokens for SASL/OAUTHBEARER (KIP-255): librdkafka fetches them by itself, kafka-python asks for them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from kafka.net.sasl.oauth import AbstractTokenProvider

from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.security import PREFIX, issuer_context

_LOG = logging.getLogger(__name__)
_PREFIX = f"{PREFIX}sasl.oauthbearer."
_TIMEOUT = 5.0
# As librdkafka: a new token when four fifths of the time of the last one are over.
_SHARE_OF_LIFE = 0.8
# Seconds; an issuer need not say how long its tokens live (RFC 6749, section 5.1).
_LIFE = 60.0
_PAUSE = 5.0


@dataclass(frozen=True)
class _Token:
    """``due`` and ``end`` are seconds of the clock: when to ask for another one, and when this one is worth nothing."""

    text: str
    due: float
    end: float


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc] # kafka-python is not typed
    """Gets tokens by OAuth 2.0's client credentials grant (RFC 6749, section 4.4), as librdkafka's method ``oidc`` does.

    kafka-python calls :meth:`token` on its network loop, where a request to the issuer holds up everything else. So call
    :meth:`renew` before requests to Kafka: the loop then finds a token that is still good.

    Args:
        properties: of a connection to Kafka, with ``sasl.oauthbearer.*`` and ``https.ca.location``.
        clock: in seconds, from any start.

    Raises:
        ConfigError: the file of ``https.ca.location`` cannot be used.
    """

    def __init__(self, properties: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._url = properties["sasl.oauthbearer.token.endpoint.url"]
        self._client = properties["sasl.oauthbearer.client.id"]
        self._secret = properties["sasl.oauthbearer.client.secret"]
        self._scope = properties.get("sasl.oauthbearer.scope")
        self._trust = issuer_context(properties)
        self._clock = clock
        self._lock = threading.Lock()
        self._token: _Token | None = None

    def token(self) -> str:
        """A token that is good now.

        Raises:
            ConfigError: the issuer is none.
            RequestError: SASL_AUTHENTICATION_FAILED, the issuer refuses the client.
            UnavailableError: the issuer does not answer.
        """
        with self._lock:
            if self._token is None or self._clock() >= self._token.end:
                self._token = self._fetch()
            return self._token.text

    def renew(self) -> None:
        """Get another token if the last one has less than a fifth of its life before it.

        Raises as :meth:`token`, once there is no good token any more; until then a failure is logged.
        """
        with self._lock:
            now = self._clock()
            if self._token is not None and now < self._token.due:
                return
            try:
                self._token = self._fetch()
            except OrderedKafkaError as error:
                if self._token is None or now >= self._token.end:
                    raise
                _LOG.warning("no new token for Kafka yet: %s", str(error))
                self._token = _Token(self._token.text, now + _PAUSE, self._token.end)

    def _fetch(self) -> _Token:
        asked = self._clock()
        form = {"grant_type": "client_credentials"} | ({} if self._scope is None else {"scope": self._scope})
        try:
            answer = httpx2.post(
                self._url,
                data=form,
                auth=(self._client, self._secret),
                headers={"Accept": "application/json"},
                timeout=_TIMEOUT,
                verify=self._trust,
            )
        except httpx2.TransportError as error:
            raise UnavailableError(f"while getting a token for Kafka from {self._url}: {error}") from error
        return self._read(answer, asked)

    def _read(self, answer: httpx2.Response, asked: float) -> _Token:
        if answer.is_server_error:
            raise UnavailableError(f"{self._url} answers with status {answer.status_code} instead of a token")
        found = _object(answer)
        if answer.status_code in (400, 401, 403):
            reason = found.get("error_description") or found.get("error") or answer.reason_phrase
            raise RequestError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"{_PREFIX}client.id has the value {self._client!r}: {self._url} refuses this client,"
                f" {_PREFIX}client.secret or {_PREFIX}scope ({reason})",
            )
        token, life = found.get("access_token"), found.get("expires_in", _LIFE)
        if not isinstance(token, str) or not isinstance(life, int | float):
            hint = f"it answers with status {answer.status_code} and no access_token: give the issuer's token endpoint"
            raise ConfigError(f"{_PREFIX}token.endpoint.url", self._url, hint)
        return _Token(token, asked + _SHARE_OF_LIFE * life, asked + life)


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
