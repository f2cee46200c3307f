"""Priority queue of brokers for the next replica. PURE."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush

_Entry = tuple[tuple[int, ...], int]


class TargetQueue:
    """Finds the broker with the least ``key`` outside given racks.

    A heap for each rack, and one over their tops. Call :meth:`update` after every change of a broker's key.
    """

    def __init__(
        self, brokers: Iterable[int], rack: Sequence[int], key: Callable[[int], tuple[int, ...]]
    ) -> None:
        self._rack = rack
        self._key = key
        self._valid = {broker: key(broker) for broker in brokers}
        self._heaps: dict[int, list[_Entry]] = {}
        for broker, value in self._valid.items():
            self._heaps.setdefault(rack[broker], []).append((value, broker))
        for heap in self._heaps.values():
            heapify(heap)
        self._top = {name: heap[0] for name, heap in self._heaps.items()}
        self._tops = [(entry, name) for name, entry in self._top.items()]
        heapify(self._tops)

    def __bool__(self) -> bool:
        return bool(self._valid)

    def update(self, broker: int) -> None:
        """Its key has changed."""
        name = self._rack[broker]
        value = self._valid[broker] = self._key(broker)
        heappush(self._heaps[name], (value, broker))
        self._refresh(name)

    def remove(self, broker: int) -> None:
        """It gets no more replicas."""
        if self._valid.pop(broker, None) is not None:
            self._refresh(self._rack[broker])

    def best(self, barred: Collection[int], without: Collection[int]) -> int | None:
        """The broker with the least key that is on none of the racks ``barred`` and not in ``without``; None without one."""
        passed = []
        found: _Entry | None = None
        while self._tops:
            entry, name = self._tops[0]
            if self._top.get(name) != entry:
                heappop(self._tops)
                continue
            if found is not None and entry > found:
                break
            passed.append(heappop(self._tops))
            if name not in barred:
                one = self._first(name, without)
                if one is not None and (found is None or one < found):
                    found = one
        for top in passed:
            heappush(self._tops, top)
        return None if found is None else found[1]

    def _first(self, name: int, without: Collection[int]) -> _Entry | None:
        heap = self._heaps[name]
        passed = []
        found = None
        while heap:
            entry = heap[0]
            if self._valid.get(entry[1]) != entry[0]:
                heappop(heap)
            elif entry[1] in without:
                passed.append(heappop(heap))
            else:
                found = entry
                break
        for entry in passed:
            heappush(heap, entry)
        return found

    def _refresh(self, name: int) -> None:
        """Update the top of a rack."""
        heap = self._heaps[name]
        while heap and self._valid.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        if not heap:
            self._top.pop(name, None)
        elif self._top.get(name) != heap[0]:
            self._top[name] = heap[0]
            heappush(self._tops, (heap[0], name))
