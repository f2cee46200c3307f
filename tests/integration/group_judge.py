"""Judges what a group of consumer processes does: order, redelivery, and that no two members hold a key at once.

Members report over a socket and continue when the report is entered, so that the order of entries is the order of
events (D-210).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

import numpy as np

from spark_ordered_kafka.checker import Report, check

_TIMEOUT = 60.0


class Record(NamedTuple):
    """A record as a member got it."""

    partition: int
    offset: int
    key: str
    number: int


class Judge:
    """The book of one topic. Not to be shared between threads without a lock."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.processed: dict[tuple[int, int], tuple[str, int]] = {}
        self.acknowledged: Counter[str] = Counter()
        self.redelivered = 0
        self.handed_over = 0
        self.lost: list[str] = []
        self._log: list[tuple[str, int]] = []
        self._step = 0
        self._at: dict[int, int] = {}
        self._reader: dict[int, str] = {}
        self._holders: dict[str, tuple[str, int]] = {}
        self._last: dict[str, tuple[str, int]] = {}
        self._given_up: dict[str, int] = {}
        self._told: dict[tuple[str, int], int] = {}

    def enter(self, member: str, what: str, about: Any) -> None:
        """Enter a report of a member."""
        self._step += 1
        if what == "processed":
            for record in about:
                self._process(member, Record(*record))
        elif what == "told":
            self._told.update(dict.fromkeys(((member, p) for p in about), self._step))
        elif what == "gave up":
            self._release(member, about)
        elif what == "acknowledged":
            for key, number in about:
                self.acknowledged[key] = max(self.acknowledged[key], number + 1)
        else:
            raise ValueError(f"{member} reports {what!r}")

    def gone(self, member: str, partitions: Iterable[int] | None, committed: Mapping[int, int]) -> None:
        """A member lost partitions (None: all) without a chance to commit: they are read again from ``committed`` on."""
        self._step += 1
        own = {p for p, reader in self._reader.items() if reader == member}
        for p in own if partitions is None else own.intersection(partitions):
            self._at[p] = committed.get(p, 0) - 1
        self._release(member, partitions)

    def holding(self) -> set[str]:
        """The members that hold keys."""
        return {member for member, _ in self._holders.values()}

    def reader(self, partition: int) -> str:
        """The member that has read a partition last."""
        return self._reader[partition]

    def report(self, expected: int | None = None) -> Report:
        """The shared checker's verdict on what was processed, without redeliveries."""
        return checked(self._log, expected)

    def _process(self, member: str, record: Record) -> None:
        p = record.partition
        self._hold(member, p, record.key)
        self._reader[p] = member
        if record.offset <= self._at.get(p, -1):
            self._violation(f"{member} got {record} again, which nobody's death explains")
        self._at[p] = record.offset
        place, content = (p, record.offset), (record.key, record.number)
        if place not in self.processed:
            self.processed[place] = content
            self._log.append(content)
        elif self.processed[place] != content:
            self._violation(f"{member} got {record}, which was {self.processed[place]} before")
        else:
            self.redelivered += 1

    def _hold(self, member: str, partition: int, key: str) -> None:
        claim, holder = (member, partition), self._holders.get(key)
        if holder == claim:
            return
        if holder is not None:
            self._violation(
                f"{member} reads {key} from {partition} while {holder[0]} holds it from {holder[1]}"
            )
        elif key in self._last and self._last[key] != claim:
            self.handed_over += 1
            if self._told.get(claim, -1) < self._given_up[key]:
                self._violation(f"{member} reads {key} from {partition} without being told that it came")
        self._holders[key] = self._last[key] = claim

    def _release(self, member: str, partitions: Iterable[int] | None) -> None:
        chosen = None if partitions is None else set(partitions)
        for key, (holder, partition) in list(self._holders.items()):
            if holder == member and (chosen is None or partition in chosen):
                del self._holders[key]
                self._given_up[key] = self._step

    def _violation(self, text: str) -> None:
        self.violations.append(text)


def checked(numbered: Iterable[tuple[str, int]], expected: int | None = None) -> Report:
    """The shared checker's verdict on keys and numbers."""
    keys, numbers = zip(*numbered, strict=True)
    return check(np.array(keys), np.array(numbers), expected)


class JudgeServer:
    """Takes the members' reports. A connection that ends without a goodbye is a member's death.

    Args:
        judge: the book; use it under :attr:`lock`.
        committed: what the group has committed, by partition; asked for at a death.

    Attributes:
        names: who has reported for duty.
        failures: what went wrong here, in words.
    """

    def __init__(self, judge: Judge, committed: Callable[[], Mapping[int, int]]) -> None:
        self.lock = threading.Lock()
        self.failures: list[str] = []
        self.names: set[str] = set()
        self._judge = judge
        self._committed = committed
        self._listener = Listener(("127.0.0.1", 0), backlog=16)
        self._held: dict[str, threading.Event] = {}
        self._waiting: set[str] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="judge", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where members connect."""
        return int(self._listener.address[1])

    def close(self) -> None:
        """Take no more members."""
        # The thread is in accept(), which only a connection ends.
        self._closing.set()
        Client(("127.0.0.1", self.port)).close()
        self._thread.join(_TIMEOUT)
        self._listener.close()

    def hold(self, member: str) -> None:
        """Let the member stand still at its next records, before they count as processed."""
        self._held[member] = threading.Event()

    def is_held(self, member: str) -> bool:
        """Whether the member stands still."""
        return member in self._waiting

    def release(self, member: str) -> None:
        """Let it go on."""
        self._held.pop(member).set()

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            try:
                name = connection.recv()
            except (EOFError, ConnectionError):
                if self._closing.is_set():
                    return
                # A member that was killed right at its start.
                continue
            self.names.add(name)
            threading.Thread(target=self._serve, args=(connection, name), name=name, daemon=True).start()

    def _serve(self, connection: Connection[Any, Any], name: str) -> None:
        try:
            with connection:
                self._listen(connection, name)
        except Exception as error:
            self.failures.append(f"the judge's line to {name}: {error!r}")
            raise

    def _listen(self, connection: Connection[Any, Any], name: str) -> None:
        try:
            while True:
                what, about = connection.recv()
                if what == "goodbye":
                    return
                self._enter(name, what, about)
                connection.send(None)
        except (EOFError, ConnectionError):
            self._bury(name, None)

    def _enter(self, name: str, what: str, about: Any) -> None:
        if what == "lost":
            with self.lock:
                self._judge.lost.append(name)
            self._bury(name, about)
            return
        held = self._held.get(name)
        if what == "processed" and held is not None:
            self._waiting.add(name)
            assert held.wait(_TIMEOUT), f"nobody released {name} within {_TIMEOUT:g} s"
            self._waiting.discard(name)
        with self.lock:
            self._judge.enter(name, what, about)

    def _bury(self, name: str, partitions: Iterable[int] | None) -> None:
        committed = self._committed()
        with self.lock:
            self._judge.gone(name, partitions, committed)


class Reports:
    """A member's line to the judge."""

    def __init__(self, port: int, name: str) -> None:
        self._connection = Client(("127.0.0.1", port))
        self._connection.send(name)

    def tell(self, what: str, about: Any) -> None:
        """Report; returns when it is entered. Raises EOFError when the judge is gone."""
        self._connection.send((what, about))
        self._connection.recv()

    def goodbye(self) -> None:
        """All is committed and given up."""
        self._connection.send(("goodbye", None))
        self._connection.close()
