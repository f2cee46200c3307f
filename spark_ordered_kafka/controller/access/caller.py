"""Who sent a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

ANONYMOUS: Final = "User:ANONYMOUS"
"""``KafkaPrincipal.ANONYMOUS``."""


@dataclass(frozen=True)
class Caller:
    """``principal`` is as Kafka prints it (``User:alice``); ``host`` is the address the request came from."""

    principal: str
    host: str

    def header(self) -> str:
        """As one controller tells another in a header: percent-encoded, for names may hold any character."""
        return f"{quote(self.principal, safe='')};{quote(self.host, safe='')}"

    @classmethod
    def from_header(cls, value: str) -> Caller:
        """The caller that :meth:`header` wrote down."""
        principal, _, host = value.partition(";")
        return cls(unquote(principal), unquote(host))
