"""Bearer tokens: a file holds the hash and the principal of each."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from spark_ordered_kafka.controller.access.files import WatchedFile
from spark_ordered_kafka.errors import ConfigError

KEY = "authentication.tokens.file"
MIN_LENGTH = 32
"""Minimum length of a token in characters: hashes of short ones can be guessed."""

_ALGORITHMS: Final = ("sha256", "sha512")
_LENGTHS: Final = {name: hashlib.new(name).digest_size * 2 for name in _ALGORITHMS}
_LINE: Final = re.compile(r"(?P<algorithm>[^:\s]+):(?P<digest>[0-9a-fA-F]+)\s+(?P<principal>User:.*\S)")
# RFC 6750, section 2.1.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class TokenEntry:
    """A line of the file. ``digest`` is the hash of the token's characters in hexadecimal digits."""

    algorithm: str
    digest: str = field(repr=False)
    principal: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest} {self.principal}"


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(token: str, principal: str) -> TokenEntry:
    """The entry of ``token``.

    Raises:
        ConfigError: the token or the principal cannot be one.
    """
    if len(token) < MIN_LENGTH or _TOKEN.fullmatch(token) is None:
        hint = f"at least {MIN_LENGTH} of the characters a-z A-Z 0-9 . _ ~ + / - are needed"
        raise ConfigError("the token", "********", hint)
    if re.fullmatch(r"User:.*\S", principal) is None:
        raise ConfigError("--principal", principal, "such as User:alice")
    return TokenEntry("sha256", hashlib.sha256(token.encode()).hexdigest(), principal)


def parse(text: str) -> tuple[TokenEntry, ...]:
    """The entries of a file: a line per token, ``sha256:<hash in hexadecimal digits> User:<name>``.

    sha512 is accepted, too. Empty lines, and those that begin with ``#``, are ignored.

    Raises:
        ConfigError: a line is something else; it names the line without showing it.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None or len(match["digest"]) != _LENGTHS.get(match["algorithm"]):
            hint = (
                "'sha256:<64 hexadecimal digits> User:<name>' is needed, as controller hash-token prints it"
            )
            # The value is left out: it may be the token itself.
            raise ConfigError(f"{KEY}: line {number}", "********", hint)
        entries.append(TokenEntry(match["algorithm"], match["digest"].lower(), match["principal"]))
    return tuple(entries)


class TokenFile:
    """Principals by token. An entry counts as soon as it is in the file. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._file = WatchedFile(KEY, path, parse)

    def principal_of(self, token: str) -> str | None:
        """The principal of a token; None: unknown token.

        Raises:
            UnavailableError: the file cannot be used any more.
        """
        data = token.encode()
        digests = {name: hashlib.new(name, data).hexdigest() for name in _ALGORITHMS}
        found = None
        # Compares with every entry in constant time, so that the time reveals nothing.
        for entry in self._file.get():
            if hmac.compare_digest(entry.digest, digests[entry.algorithm]):
                found = entry.principal
        return found
