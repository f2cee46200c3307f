"""Who sent a request."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final
from urllib.parse import quote, unquote

ANONYMOUS: Final = "User:ANONYMOUS"
"""``KafkaPrincipal.ANONYMOUS``."""


def kafka_address(address: str) -> str:
    """An address of a socket as Kafka compares it with the hosts of ACLs: as Java's ``InetAddress.getHostAddress`` has it.

    That is IPv4 for clients that came by IPv4, whatever the socket is bound to, and IPv6 with every group of digits.
    """
    plain, percent, zone = address.partition("%")
    try:
        parsed = IPv6Address(plain)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return ":".join(groups) + percent + zone


@dataclass(frozen=True)
class Caller:
    """``principal`` is as Kafka prints it (``User:alice``); ``host`` is the address the request came from
    (:func:`kafka_address`)."""

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
