"""What a controller finds out about itself and the servers that it depends on."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import Answer, Open
from spark_ordered_kafka.client.schemas.controllers import Role


class ZooKeeperServer(Answer):
    """A server of ``zookeeper.connect``. ``mode`` is ``leader``, ``follower``, ``observer`` or ``standalone``; None with an
    ``error`` where it does not say."""

    address: str
    mode: str | None = None
    version: str | None = None
    error: str | None = None


class Diagnostics(Answer):
    """``GET /v1/diagnostics``, of the controller that answers.

    ``time``: its clock, in seconds since the epoch. ``settings``: those that all controllers of a cluster should share, by
    the names of the configuration file; lists of users as a hash. ``znodes_open``: whether every client that reaches ZooKeeper may
    alter what the controllers keep there. ``unknown_znodes``: what no controller of this version makes. ``missing_rights``:
    Kafka rights of docs/security.md that the controller lacks on the cluster, and on topics under management.
    """

    id: str
    url: str
    role: Open[Role]
    version: str
    python: str
    libraries: dict[str, str]
    time: float
    settings: dict[str, str]
    zookeeper: list[ZooKeeperServer]
    znodes_open: bool
    unknown_znodes: list[str]
    missing_rights: list[str]


class ForeignProducerView(Answer):
    """A producer that is no ordered writer and has written to a topic. ``last_timestamp``: of its newest record, in
    milliseconds by its own clock, -1 if not known."""

    producer_id: int
    partitions: list[int]
    last_timestamp: int
    transactional_id: str | None = None


class ForeignProducers(Answer):
    """``GET /v1/topics/{t}/foreign-producers``: the one that wrote last first."""

    topic: str
    producers: list[ForeignProducerView]
