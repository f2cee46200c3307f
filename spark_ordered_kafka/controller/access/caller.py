"""Who sent a request."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""``KafkaPrincipal.ANONYMOUS``."""


def kafka_address(address: str) -> str:
    """A socket's address as Kafka compares it with the hosts of ACLs: in the form of Java's ``InetAddress.getHostAddress``.

    That is IPv4 for clients that came by IPv4, also on an IPv6 socket, and IPv6 with every group of digits.
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
