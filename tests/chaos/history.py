"""Random histories of a topic: what writers, readers, servers and retention do, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Death = Literal["open", "flushed", "committed", "zombie"]
ReaderCrash = Literal["planned", "half read", "read", "delivered"]
Fault = Literal["kill controller", "pause controller", "kill broker", "pause broker", "kill zookeeper"]
Starting = Literal["earliest", "latest"]

CRASH_POINTS = (
    "CreatePartitions",
    "AwaitLeaders",
    "Persist:closing",
    "ListTransactions",
    "Fence",
    "Persist:boundaries",
    "ReadBoundaries",
    "CheckLogEnds",
    "CommitLayout",
    "Finish",
)
"""Instructions of a change before which its controller may die, by the names of tests.integration.crashing_controller."""


@dataclass(frozen=True)
class Write:
    """A writer commits transactions of about ``rows`` rows; in the background unless ``wait``."""

    writer: int
    transactions: int
    rows: int
    wait: bool


@dataclass(frozen=True)
class Die:
    """A writer dies in a transaction: with it open, with its records in the log, or after the commit, unknown to it;
    ``zombie``: it comes back after its successor has committed the same transaction. The successor is the writer's
    next action."""

    writer: int
    rows: int
    how: Death


@dataclass(frozen=True)
class Change:
    """A partition change. ``crash``: its controller dies before that instruction."""

    target: int
    wait: bool
    crash: str | None = None
    cancel: bool = False


@dataclass(frozen=True)
class Start:
    """A further reader. ``limit``: its maxOffsetsPerTrigger."""

    starting: Starting
    limit: int | None


@dataclass(frozen=True)
class Poll:
    """A reader runs up to ``batches`` micro-batches; with ``crash`` it dies in the last one and is started again."""

    reader: int
    batches: int
    crash: ReaderCrash | None = None


@dataclass(frozen=True)
class Delete:
    """Records are deleted: of every partition ``share`` of what all readers have read; ``beyond``: of all there is."""

    share: float
    beyond: bool


@dataclass(frozen=True)
class Break:
    """A server is killed and started again, or stands still for ``seconds``. ``broker``: which, if it is a broker."""

    fault: Fault
    seconds: float = 0.0
    broker: int = 1


Action = Write | Die | Change | Start | Poll | Delete | Break


@dataclass(frozen=True)
class History:
    """``lossy``: retention may overtake the readers, which run with failOnDataLoss=false."""

    seed: int
    partitions: int
    writers: int
    keys: int
    lossy: bool
    actions: tuple[Action, ...]


def history(seed: int) -> History:
    """The history of a seed."""
    return _Generator(random.Random(seed)).history(seed)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._partitions = rng.choice((1, 1, 2, 3))
        self._widest = self._partitions + rng.choice((3, 6, 6, 15))
        self._writers = rng.randint(1, 3)
        self._keys = rng.choice((3, 20, 20, 300))
        self._lossy = rng.random() < 0.3
        self._readers = 0
        self._deletes = False

    def history(self, seed: int) -> History:
        rng = self._rng
        actions: list[Action] = [self._start("earliest"), self._write(wait=True)]
        phases = [self._mixed, self._lagging, self._disaster]
        rng.shuffle(phases)
        for phase in phases:
            actions += phase()
        return History(seed, self._partitions, self._writers, self._keys, self._lossy, tuple(actions))

    def _mixed(self) -> Iterator[Action]:
        """A little of everything."""
        makers = (self._write, self._die, self._change, self._poll, self._delete, self._join)
        for make in self._rng.choices(makers, weights=(6, 2, 3, 4, 2, 1), k=6):
            yield make()

    def _lagging(self) -> Iterator[Action]:
        """Several changes in a row while nobody reads; then a reader dies on the way through them."""
        for _ in range(self._rng.randint(2, 3)):
            yield self._write()
            yield self._change()
        yield self._poll(likely=0.8)

    def _disaster(self) -> Iterator[Action]:
        """A server fails, mostly in the middle of a change under load."""
        rng = self._rng
        yield self._write()
        kind = rng.choices(
            (
                "crash point",
                "kill controller",
                "pause controller",
                "pause broker",
                "kill zookeeper",
                "kill broker",
            ),
            weights=(30, 15, 15, 20, 15, 5),
        )[0]
        if kind == "crash point":
            yield Change(self._target(), wait=False, crash=rng.choice(CRASH_POINTS))
        elif kind == "kill broker" and not self._deletes:
            # It comes back while the change and the writer after it are under way. A broker that dies alone forgets
            # where its logs begin since the last log.flush.start.offset.checkpoint.interval.ms.
            yield Break("kill broker")
            yield Change(self._target(), wait=False)
        else:
            if rng.random() < 0.8:
                yield Change(self._target(), wait=False)
            yield _break(rng, "pause broker" if kind == "kill broker" else kind)
        yield self._write()
        yield self._poll()

    def _write(self, wait: bool | None = None) -> Write:
        rng = self._rng
        return Write(
            rng.randrange(self._writers),
            transactions=rng.randint(1, 2),
            rows=rng.choice((1, 10, 40, 40, 120)),
            wait=rng.random() < 0.4 if wait is None else wait,
        )

    def _die(self) -> Die:
        how: Death = self._rng.choice(("open", "flushed", "committed", "zombie"))
        return Die(self._rng.randrange(self._writers), self._rng.choice((1, 30)), how)

    def _target(self) -> int:
        return self._rng.randint(self._partitions, self._widest)

    def _change(self) -> Change:
        return Change(self._target(), wait=self._rng.random() < 0.4, cancel=self._rng.random() < 0.1)

    def _poll(self, likely: float = 0.4) -> Poll:
        """``likely``: how likely the reader dies."""
        rng = self._rng
        crashes: tuple[ReaderCrash, ...] = ("planned", "half read", "read", "delivered")
        crash = rng.choice(crashes) if rng.random() < likely else None
        return Poll(rng.randrange(self._readers), rng.randint(1, 5), crash)

    def _delete(self) -> Delete:
        self._deletes = True
        return Delete(round(self._rng.uniform(0.2, 1.0), 2), self._lossy and self._rng.random() < 0.6)

    def _join(self) -> Start | Poll:
        if self._readers == 3:
            return self._poll()
        return self._start(self._rng.choice(("earliest", "latest")))

    def _start(self, starting: Starting) -> Start:
        self._readers += 1
        return Start(starting, self._rng.choice((None, 25, 60, 60, 200)))


def _break(rng: random.Random, fault: str) -> Break:
    match fault:
        case "pause controller":
            # Longer than its session: its successor is at work when it wakes up.
            return Break(fault, round(rng.uniform(0.5, 3.0), 1))
        case "pause broker":
            return Break(fault, round(rng.uniform(0.3, 1.5), 1))
        case "kill controller" | "kill zookeeper":
            return Break(fault)
    raise ValueError(fault)
