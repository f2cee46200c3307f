"""Authenticates callers: HTTP Basic checked by Kafka, bearer tokens, certificates of TLS clients."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Mapping
from typing import Final, Literal

from spark_ordered_kafka.controller.access.passwords import PasswordProver, kafka_login
from spark_ordered_kafka.controller.access.tokens import TokenFile
from spark_ordered_kafka.controller.settings import AuthenticationSettings, TlsSettings
from spark_ordered_kafka.errors import ErrorCode, RequestError

_log = logging.getLogger(__name__)
REALM: Final = "ordered-kafka"
_MAX_CREDENTIALS = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class CredentialsError(RequestError):
    """Credentials are missing or not accepted; the text does not say which part is wrong."""

    def __init__(self, message: str = "the credentials are not accepted") -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class Authenticator:
    """Authenticates callers. Thread-safe, also between event loops.

    Args:
        authentication: which methods there are.
        tls: says whether clients show certificates.
        kafka: the controller's connection to Kafka.
        timeout: seconds for Kafka to prove a password.

    Raises:
        ConfigError: a method cannot work as it is set up.
    """

    def __init__(
        self,
        authentication: AuthenticationSettings,
        tls: TlsSettings | None,
        kafka: Mapping[str, str],
        timeout: float,
    ) -> None:
        self.required = authentication.required
        self._certificates = tls is not None and tls.client_auth != "none"
        mechanism, path = authentication.kafka_mechanism, authentication.tokens_file
        self._tokens = None if path is None else TokenFile(path)
        self._passwords = (
            None if mechanism is None else PasswordProver(kafka_login(kafka, mechanism, timeout))
        )

    @property
    def challenge(self) -> str:
        """For ``WWW-Authenticate``: the configured methods (RFC 9110, section 11.6.1)."""
        schemes = []
        if self._passwords is not None:
            schemes.append(f'Basic realm="{REALM}", charset="UTF-8"')
        if self._tokens is not None:
            schemes.append(f'Bearer realm="{REALM}"')
        # The header must not be empty; HTTP has no scheme for certificates.
        return ", ".join(schemes) or f'Certificate realm="{REALM}"'

    @property
    def schemes(self) -> list[Literal["basic", "bearer", "certificate"]]:
        """The supported methods, for programs."""
        there: dict[Literal["basic", "bearer", "certificate"], bool] = {
            "basic": self._passwords is not None,
            "bearer": self._tokens is not None,
            "certificate": self._certificates,
        }
        return [name for name, offered in there.items() if offered]

    @property
    def methods(self) -> tuple[str, ...]:
        """The supported methods, for messages."""
        there = {
            "HTTP Basic with a user of Kafka": self._passwords is not None,
            "a bearer token": self._tokens is not None,
            "a client certificate": self._certificates,
        }
        return tuple(name for name, offered in there.items() if offered)

    async def principal(self, authorization: str | None, certificate: str | None, host: str) -> str | None:
        """The principal of a request's credentials; None without credentials.

        Args:
            authorization: the header, which wins over the certificate as SASL does in Kafka.
            certificate: the principal of the TLS client's certificate, checked by the handshake.
            host: the client's address.

        Raises:
            CredentialsError: they are not accepted.
            UnavailableError: they cannot be checked now.
        """
        if authorization is None:
            return certificate if self._certificates else None
        scheme, _, credentials = authorization.partition(" ")
        credentials = credentials.strip()
        if credentials and len(credentials) <= _MAX_CREDENTIALS:
            if scheme.lower() == "basic" and self._passwords is not None:
                return await self._basic(self._passwords, credentials, host)
            if scheme.lower() == "bearer" and self._tokens is not None:
                found = await asyncio.to_thread(self._tokens.principal_of, credentials)
                if found is not None:
                    return found
        raise CredentialsError

    def close(self) -> None:
        """Stop checking credentials."""
        if self._passwords is not None:
            self._passwords.close()

    async def _basic(self, passwords: PasswordProver, credentials: str, host: str) -> str:
        try:
            text = base64.b64decode(credentials, validate=True).decode("utf-8")
        except ValueError as error:  # neither Base64 in ASCII nor UTF-8 in it
            raise CredentialsError from error
        username, colon, password = text.partition(":")
        # Control characters (RFC 7617 forbids them) could end a field of SASL PLAIN early.
        if not colon or not username or not password or _CONTROL.search(text) is not None:
            raise CredentialsError
        # Reviews and the audit log show the name.
        if not username.isprintable():
            raise CredentialsError
        if not await passwords.proves(username, password, host):
            _log.info("Kafka does not accept the password of %r, sent from %s", username, host)
            raise CredentialsError
        return f"User:{username}"
