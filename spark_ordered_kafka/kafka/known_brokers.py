"""Brokers by which clients that are made later find a cluster, too, after those of ``bootstrap.servers`` were replaced (D-468)."""

from __future__ import annotations

from confluent_kafka.admin import ClusterMetadata

from spark_ordered_kafka.parsing import host_port

# Of a large cluster a few will do.
_MOST = 16
# By bootstrap.servers: addresses in the newest metadata that a client of this process has received.
_known: dict[str, list[str]] = {}


def note_brokers(servers: str, metadata: ClusterMetadata) -> None:
    """Remember the brokers in metadata that a client with these ``bootstrap.servers`` has received.

    Metadata without a broker, as from one that is fenced, changes nothing.
    """
    found = [host_port(str(one.host), one.port) for one in metadata.brokers.values()]
    if found:
        _known[servers] = found[:_MOST]


def with_known_brokers(servers: str) -> str:
    """The ``bootstrap.servers`` of a new client: those given, and the brokers that were found through them."""
    return ",".join(dict.fromkeys([*servers.split(","), *_known.get(servers, ())]))
