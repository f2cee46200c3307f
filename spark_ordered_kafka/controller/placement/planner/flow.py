"""Moves items from brokers with too many to brokers with too few, through others where needed. PURE.

An item (a replica or a leadership) may go to some brokers only, so the direct way between two brokers may be closed while
one through a third broker is open. This is a maximum flow; blocking flows on shortest paths as in Dinic's algorithm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol


class Layer:
    """Brokers, indexed by rack."""

    def __init__(self, brokers: Iterable[int], rack: Sequence[int]) -> None:
        self._rack = rack
        self.members: set[int] = set()
        self.by_rack: dict[int, dict[int, None]] = {}
        for broker in brokers:
            self.members.add(broker)
            self.by_rack.setdefault(rack[broker], {})[broker] = None

    def discard(self, broker: int) -> None:
        """Remove a broker, if it is in."""
        if broker in self.members:
            self.members.remove(broker)
            there = self.by_rack[self._rack[broker]]
            del there[broker]
            if not there:
                del self.by_rack[self._rack[broker]]


class Moves(Protocol):
    """The possible moves. Brokers and items are indexes."""

    rack: Sequence[int]

    def items(self, broker: int) -> Sequence[int]:
        """Items that a broker has and may give up, in the order to try them."""

    def options(self, item: int, broker: int, layer: Layer) -> Iterator[int]:
        """The brokers of ``layer`` that may have the item instead of ``broker``."""

    def open(self, broker: int) -> bool:
        """Whether a broker may get an item now."""

    def move(self, item: int, source: int, target: int) -> None:
        """Move the item."""


class Flow:
    """A flow among the brokers of ``group``. ``work`` limits the items checked: long paths may need many."""

    def __init__(self, moves: Moves, group: Collection[int], work: int) -> None:
        self._moves = moves
        self._group = sorted(group)
        self._work = work

    def push(self, excess: dict[int, int], deficit: dict[int, int]) -> None:
        """Move as many items as possible from brokers in ``excess`` (broker -> how many) to those in ``deficit``.

        Both are counted down.
        """
        while self._work > 0:
            sources = [broker for broker in self._group if excess.get(broker, 0) > 0]
            layers = self._layers(sources, deficit)
            if layers is None or not self._block(sources, layers, excess, deficit):
                return

    def reachable(self, sources: Collection[int]) -> set[int]:
        """``sources`` and the brokers to which items could move from them."""
        return {broker for layer in self._explored(sorted(sources)) for broker in layer}

    def _layers(self, sources: list[int], deficit: dict[int, int]) -> list[Layer] | None:
        """Brokers by the length of the shortest path, up to the first with a deficit; None: there is no path."""
        layers = []
        for reached in self._explored(sources):
            lacking = [broker for broker in reached if deficit.get(broker, 0) > 0]
            layers.append(Layer(lacking or reached, self._moves.rack))
            if lacking:
                return layers
        return None

    def _explored(self, sources: list[int]) -> Iterator[list[int]]:
        moves = self._moves
        known = set(sources)
        left = Layer((b for b in self._group if b not in known and moves.open(b)), moves.rack)
        frontier = sources
        while frontier:
            yield frontier
            reached: list[int] = []
            for broker in frontier:
                if not left.members:
                    break
                items = moves.items(broker)
                self._work -= len(items)
                for item in items:
                    found = list(moves.options(item, broker, left))
                    for one in found:
                        left.discard(one)
                    reached += found
                    if not left.members:
                        break
            frontier = reached

    def _block(
        self, sources: list[int], layers: list[Layer], excess: dict[int, int], deficit: dict[int, int]
    ) -> bool:
        """Use all shortest paths; whether there was one."""
        paths = _AugmentingPaths(self._moves, layers)
        moved_any = False
        for source in sources:
            while excess[source] > 0:
                path = paths.find(source)
                if path is None:
                    break
                # From the end: every broker on the path gives before it gets.
                for item, sender, receiver in reversed(path):
                    self._moves.move(item, sender, receiver)
                self._work -= len(path)
                moved_any = True
                excess[source] -= 1
                end = path[-1][2]
                deficit[end] -= 1
                if deficit[end] == 0:
                    layers[-1].discard(end)
        return moved_any


class _AugmentingPaths:
    """Depth-first search through layers; dead ends are not tried again."""

    def __init__(self, moves: Moves, layers: list[Layer]) -> None:
        self._moves = moves
        self._layers = layers
        self._untried: dict[int, Iterator[int]] = {}
        self._trying: dict[int, int | None] = {}

    def find(self, source: int) -> list[tuple[int, int, int]] | None:
        """Steps (item, from, to) of a path to the last layer, each item once."""
        path: list[tuple[int, int, int]] = []
        broker = source
        while True:
            depth = len(path)
            if depth == len(self._layers) - 1:
                # The items of this path are not available to the next one.
                for _, sender, _ in path:
                    self._next(sender)
                return path
            step = self._step(broker, depth, path)
            if step is not None:
                path.append((step[0], broker, step[1]))
                broker = step[1]
                continue
            if not path:
                return None
            self._layers[depth].discard(broker)
            _, broker, _ = path.pop()

    def _step(self, broker: int, depth: int, path: list[tuple[int, int, int]]) -> tuple[int, int] | None:
        if broker not in self._untried:
            self._untried[broker] = iter(list(self._moves.items(broker)))
            self._next(broker)
        following = self._layers[depth + 1]
        while (item := self._trying[broker]) is not None:
            if all(item != other for other, _, _ in path):
                for target in list(self._moves.options(item, broker, following)):
                    if self._moves.open(target):
                        return item, target
                    following.discard(target)
            self._next(broker)
        return None

    def _next(self, broker: int) -> None:
        self._trying[broker] = next(self._untried[broker], None)
