"""The clients of a run: their names, and the command of each start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

from tests.nemesis.cluster import Cluster
from tests.nemesis.plan import COPIED, QUERIED, SAVED, SOURCE, UNSAFE
from tests.nemesis.rights import CLIENT, OPERATOR
from tests.nemesis.spark import SparkCluster, Way
from tests.nemesis.writer import PACE

_WRITERS, _COPIERS, _KEYS = 2, 3, 12
_READERS = 2
STATIC = ("copier-1", "copier-3")
"""Those with a ``group.instance.id``."""
COPYING, SAVING, READING = "copiers", f"copiers of {UNSAFE}", "readers"
"""Groups."""
_SESSION = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "auto.offset.reset": "earliest"}


def client_names(*, query: bool) -> list[str]:
    """By their roles; the last writer and the last copier are those of the topic that may lose records."""
    counts = {
        "writer": _WRITERS + 1,
        "copier": _COPIERS + 1,
        "reader": _READERS,
        "operator": 1,
        "query": int(query),
    }
    return [f"{role}-{number}" for role, count in counts.items() for number in range(1, count + 1)]


class Clients(NamedTuple):
    """What the commands of all clients are made of. ``rate``: records per second that writers aim at."""

    history: Path
    cluster: Cluster
    spark: SparkCluster | None
    seed: int
    rate: int
    way: Way

    @property
    def topics(self) -> list[str]:
        """Those that lose nothing."""
        return [SOURCE, COPIED, *([] if self.spark is None else [QUERIED])]

    def command(self, name: str, number: int) -> list[str]:
        """That of a client's n-th start."""
        role, _, place = name.rpartition("-")
        match role:
            case "writer":
                arguments = self._writer(int(place))
            case "copier":
                arguments = self._copier(int(place))
            case "reader":
                arguments = self._reader()
            case "operator":
                arguments = self._operator(number)
            case _:
                arguments = self._query(name)
        return [
            sys.executable,
            "-m",
            f"tests.nemesis.{role}",
            str(self.history),
            f"{name}.{number}",
            *arguments,
        ]

    @property
    def _servers(self) -> dict[str, str]:
        return self.cluster.kafka(CLIENT) | self.cluster.controller_options(CLIENT)

    @property
    def _writes(self) -> dict[str, str]:
        return self._servers | {"transaction.timeout.ms": "10000", "compression.type": "lz4"}

    def _writer(self, place: int) -> list[str]:
        at_once = max(1, round(self.rate * PACE / (_WRITERS * _KEYS)))
        topic = SOURCE if place <= _WRITERS else UNSAFE
        return [topic, str(_KEYS), str(at_once), json.dumps(self._writes)]

    def _copier(self, place: int) -> list[str]:
        *topics, group = (SOURCE, COPIED, COPYING) if place <= _COPIERS else (UNSAFE, SAVED, SAVING)
        reads = self._servers | _SESSION | {"group.id": group, "enable.auto.commit": "false"}
        if (name := f"copier-{place}") in STATIC:
            reads["group.instance.id"] = name
        return [*topics, json.dumps(reads), json.dumps(self._writes | {"commit.interval.ms": "0"})]

    def _reader(self) -> list[str]:
        return [SOURCE, json.dumps(self._servers | _SESSION | {"group.id": READING}), str(self.seed)]

    def _operator(self, number: int) -> list[str]:
        log_dirs = {
            one.rpartition("-")[2]: [str(self.cluster.log_dir(one, directory)) for directory in (1, 2)]
            for one in self.cluster.names("broker")
        }
        settings = {"topics": [*self.topics, SAVED], "log_dirs": log_dirs}
        operators = json.dumps(self.cluster.controller_options(OPERATOR))
        return [operators, f"{self.seed}/{number}", json.dumps(settings)]

    def _query(self, name: str) -> list[str]:
        assert self.spark is not None
        kafka = {f"kafka.{option}": value for option, value in self.cluster.kafka(CLIENT).items()}
        options = json.dumps(self.cluster.controller_options(CLIENT) | kafka)
        checkpoint, spark = self.spark.checkpoints / "checkpoint", json.dumps(self.spark.settings(name))
        return [SOURCE, QUERIED, str(checkpoint), options, "2 seconds", spark, self.way.value]
