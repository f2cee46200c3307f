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

    ``time``: its machine's clock, in seconds since the epoch; ``counted_time``: what it goes by, the clock at its start and what has
    passed since, None of a controller that does not say. ``settings``: those that all controllers of a cluster should share, by
    the names of the configuration file; lists of users as a hash. ``znodes_open``: whether every client that reaches ZooKeeper may
    alter what the controllers keep there. ``unknown_znodes``: what no controller of this version makes. ``missing_rights``:
    Kafka rights of docs/security.md that the controller lacks on the cluster, and on topics under management, their writers'
    transactional ids and groups.
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
    counted_time: float | None = None


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


class HangingTransactionView(Answer):
    """A transaction that is open in a partition's log, and not for its coordinator: readers of committed records stop at
    ``start_offset``, until it is aborted by hand.

    ``last_timestamp``: of the producer's newest record, in milliseconds by its own clock, -1 if not known.
    ``transactional_id``: None where no coordinator knows the producer. ``is_certain``: False where that may be because the
    controller may not describe its transactional id; then it has been open for more than 15 minutes.
    """

    partition: int
    start_offset: int
    producer_id: int
    last_timestamp: int
    transactional_id: str | None = None
    is_certain: bool


class HangingTransactionList(Answer):
    """``GET /v1/topics/{t}/hanging-transactions``: by partition and offset."""

    topic: str
    transactions: list[HangingTransactionView]
