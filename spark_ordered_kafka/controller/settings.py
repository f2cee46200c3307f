"""What a controller process is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_ordered_kafka.controller.change import Timing


@dataclass(frozen=True)
class ControllerSettings:
    """``url`` is what other controllers and people are told; times in seconds.

    ``startup_timeout`` bounds the wait for Kafka and ZooKeeper; ``session_timeout`` is ZooKeeper's: so long after a
    controller died, its successor takes over. ``retire_interval``: how often removed partitions are looked at;
    ``retire_replication_factor``: replicas that one keeps once it is empty, None: all.
    """

    bootstrap_servers: str
    zookeeper: str
    url: str
    timing: Timing = field(default_factory=Timing)
    startup_timeout: float = 30.0
    session_timeout: float = 6.0
    request_timeout: float = 10.0
    retire_interval: float = 5.0
    retire_replication_factor: int | None = None
