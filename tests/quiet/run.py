"""``make quiet``: hours in which little happens, and whether anything grows.

A writer, a query that copies by Spark with a trigger of ten seconds, a member of a group that copies exactly once, one broker,
one controller and one ZooKeeper server; now and then a partition count changes. At the end both copies are judged.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Annotated

import psutil
import typer

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.nemesis import judge
from tests.nemesis.journal import Event, Journal, parse
from tests.nemesis.reading import TopicReader
from tests.nemesis.writer import PACE
from tests.quiet.growth import check_growth, figures
from tests.quiet.measuring import measured
from tests.streams import change, conf, create, options

TOPICS = SOURCE, COPIED, QUERIED = "events", "copied", "queried"
COUNTS = (8, 3, 5, 2)
"""Partition counts, one after another; a topic begins with two, and has all its partitions in Kafka from the first on."""
_KEYS = 12
_PATIENCE = 120.0
"""Seconds for both copies to begin, and for both to end."""
_LAST = 60.0
"""Seconds for a process to end after SIGTERM."""


class Run:
    """One run on a cluster that is up. ``every``: seconds between two changes; ``sample``: between two measurements."""

    def __init__(
        self, cluster: LocalCluster, directory: Path, rate: int, every: float, sample: float
    ) -> None:
        self.history = directory / "history.jsonl"
        self._cluster = cluster
        self._directory = directory
        self._at_once = max(1, round(rate * PACE / _KEYS))
        self._every, self._sample = every, sample
        self._journal = Journal(self.history, "run")

    def go(self, seconds: float) -> list[str]:
        """Run for so long, then judge: violations."""
        for topic in TOPICS:
            create(self._cluster, topic, 2)
        with self._clients() as clients:
            for topic in TOPICS[1:]:
                with self._reader(topic) as copy:
                    assert copy.read(1, _PATIENCE), f"nothing is copied to {topic} within {_PATIENCE:g} s"
            self._wait(clients, seconds)
            _end(clients["writer"])
            with (
                self._reader(SOURCE) as source,
                self._reader(COPIED) as copied,
                self._reader(QUERIED) as queried,
            ):
                assert source.read(0, _PATIENCE), f"{SOURCE} cannot be read to its end within {_PATIENCE:g} s"
                late = [copy.topic for copy in (copied, queried) if not copy.read(len(source), _PATIENCE)]
                with ControllerClient(self._cluster.controller_url) as controller:
                    written, *copied_records = (
                        one.in_order(controller).records for one in (source, copied, queried)
                    )
        self._journal.note("read", records=len(written.keys))
        events = self.events()
        found = [f"{topic} has not all records {_PATIENCE:g} s after the last one" for topic in late]
        found += judge.check_log(written, events)
        for topic, records in zip(TOPICS[1:], copied_records, strict=True):
            found += judge.check_copy(topic, written, records)
        return [*found, *judge.check_holding(events), *judge.check_errors(events), *check_growth(events)]

    def _reader(self, topic: str) -> closing[TopicReader]:
        return closing(TopicReader(self._cluster.kafka_properties(), topic))

    def events(self) -> list[Event]:
        """The history so far."""
        with self.history.open() as file:
            return parse(file)

    def _wait(self, clients: dict[str, psutil.Popen], seconds: float) -> None:
        """Measure all processes again and again, and change a partition count now and then."""
        self._journal.note("begin", seconds=seconds)
        begun = sampled = changed = time.monotonic()
        counts = cycle(COUNTS)
        while (now := time.monotonic()) < begun + seconds:
            for name, client in clients.items():
                if client.poll() is not None:
                    raise AssertionError(f"{name} has ended: {self._log(name).read_text()[-3000:]}")
            if now >= sampled:
                sampled += self._sample
                roots = {
                    status.name: status.pid for status in self._cluster.status() if status.pid is not None
                }
                roots |= {name: client.pid for name, client in clients.items()}
                for name, figures_of in measured(roots).items():
                    self._journal.note("usage", of=name, **figures_of)
            if now >= changed + self._every:
                changed += self._every
                count = next(counts)
                for topic in TOPICS:
                    change(self._cluster, topic, count)
                self._journal.note("changed", partitions=count)
            time.sleep(1)
        self._journal.note("end")

    @contextmanager
    def _clients(self) -> Iterator[dict[str, psutil.Popen]]:
        reads = {"group.id": "copiers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        servers = conf(self._cluster)
        checkpoint = self._directory / "query" / "checkpoint"
        checkpoint.parent.mkdir()
        commands = {
            "writer": [SOURCE, str(_KEYS), str(self._at_once), json.dumps(servers)],
            "copier": [
                SOURCE,
                COPIED,
                json.dumps(servers | reads),
                json.dumps(servers | {"commit.interval.ms": 0}),
            ],
            "query": [SOURCE, QUERIED, str(checkpoint), json.dumps(options(self._cluster)), "10 seconds"],
        }
        clients: dict[str, psutil.Popen] = {}
        # Each is ended, also when another one does not end in time.
        with ExitStack() as stack:
            for name, arguments in commands.items():
                command = [sys.executable, "-m", f"tests.nemesis.{name}", str(self.history), name, *arguments]
                with self._log(name).open("ab") as log:
                    clients[name] = psutil.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                stack.callback(_end, clients[name])
            yield clients

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def _end(process: psutil.Popen) -> None:
    """SIGTERM, and wait; SIGKILL with all children where that does not help."""
    if process.poll() is not None:
        return
    children = process.children(recursive=True)
    process.terminate()
    try:
        process.wait(_LAST)
    except psutil.TimeoutExpired:
        for one in (process, *children):
            if one.is_running():
                one.kill()
        raise


def main(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long it goes on.")] = 180.0,
    every: Annotated[float, typer.Option(min=0.1, help="Minutes between two partition changes.")] = 60.0,
    sample: Annotated[float, typer.Option(min=1.0, help="Seconds between two measurements.")] = 30.0,
    rate: Annotated[int, typer.Option(min=1, help="Records per second.")] = 240,
    directory: Annotated[
        Path | None, typer.Option(help="Where all is kept: history.jsonl, logs, data.")
    ] = None,
) -> None:
    """Ends with 1 if a promise is broken, or anything has grown."""
    chosen = Path(tempfile.mkdtemp(prefix="quiet-")) if directory is None else directory.resolve()
    chosen.mkdir(parents=True, exist_ok=True)
    typer.echo(f"{chosen}/history.jsonl")
    with LocalCluster(chosen / "cluster") as cluster:
        run = Run(cluster, chosen, rate, 60 * every, sample)
        violations = run.go(60 * minutes)
    typer.echo(figures(run.events()))
    typer.echo("\n".join([f"{len(violations)} violations", *(f"  {one}" for one in violations)]))
    if violations:
        raise typer.Exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        typer.run(main)
