"""The order in which Kafka's round robin goes through brokers (KIP-36). PURE."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

Bin = int | str
"""What has a capacity of its own: a broker (its id) or a rack (its name)."""


class Ring:
    """Brokers by id, or rack by rack in turn (``AdminUtils.getRackAlternatedBrokerList``) when each of them has one.

    Args:
        racks: broker id -> rack, of one broker at least.
        bins: broker id -> what its capacity counts for, of these brokers.
    """

    def __init__(self, racks: Mapping[int, str | None], bins: Mapping[int, Bin]) -> None:
        self.order = _alternated(racks)
        self._racked = has_racks(racks)
        self._rack = [racks[broker] for broker in self.order]
        self._rack_count = len(set(self._rack))
        self._bins = bins

    def index_of(self, broker: int) -> int:
        """Where the broker stands; Kafka takes the next id for one that is not there."""
        if broker in self.order:
            return self.order.index(broker)
        return next((i for i, there in enumerate(self.order) if there >= broker), 0)

    def replicas(
        self, partition: int, factor: int, start: int, bins: Collection[Bin] = (), needed: int = 0
    ) -> list[int]:
        """Replicas of partition number ``partition``, when partition 0 begins at index ``start``.

        With ``needed``: so many of them lie in different ones of ``bins``, which must have as many brokers here; the
        others as the round robin has them. Raises ValueError when there are fewer than ``factor`` brokers.
        """
        count = len(self.order)
        if factor > count:
            raise ValueError(f"{factor} replicas cannot be on different ones of {count} brokers")
        leader = (partition + start) % count
        shift = start + partition // count
        if self._racked:
            shift *= self._rack_count
        following = leader if count == 1 else (leader + 1 + shift % (count - 1)) % count
        if needed == 0:
            return [self.order[position] for position in self._walk(leader, following, factor, [])]

        def turn(position: int) -> int:
            return -1 if position == leader else (position - following) % count

        firsts = sorted((self._first(leader, following, name) for name in bins), key=turn)
        held = self._from_different_racks(firsts, needed)
        return [self.order[p] for p in sorted(self._walk(leader, following, factor, held), key=turn)]

    def _walk(self, leader: int, following: int, factor: int, taken: list[int]) -> list[int]:
        """``taken`` and what follows: every rack gets a replica before one gets a second, no broker gets two."""
        rack, count = self._rack, len(self.order)
        rack_count = self._rack_count if self._racked else 0
        used = {rack[position] for position in taken}
        position, upcoming, misses = leader, following, 0
        while len(taken) < factor:
            another_rack = len(used) < rack_count
            if (another_rack and rack[position] in used) or position in taken:
                misses += 1
            else:
                taken.append(position)
                used.add(rack[position])
                misses = 0
            position, upcoming = upcoming, (upcoming + 1) % count
            if another_rack and misses > 2 * len(used) + 2:
                # Racks take turns, and those with most brokers go on alone in the end: where the rest of one turn and
                # all of the next have no rack that is wanted, no later turn has one. The first turn has them all.
                position, upcoming, misses = 0, 1 % count, 0
        return taken

    def _first(self, leader: int, following: int, name: Bin) -> int:
        """The position of ``name`` that the walk reaches first."""
        positions = self._positions[name]
        if self._bins[self.order[leader]] == name:
            return leader
        index = bisect_left(positions, following)
        return positions[index if index < len(positions) else 0]

    def _from_different_racks(self, positions: Sequence[int], needed: int) -> list[int]:
        """The first ``needed``, those on racks that none before them is on first."""
        seen: set[str | None] = set()
        new: list[int] = []
        again: list[int] = []
        for position in positions:
            rack = self._rack[position]
            (again if self._racked and rack in seen else new).append(position)
            seen.add(rack)
        return [*new, *again][:needed]

    @cached_property
    def _positions(self) -> dict[Bin, list[int]]:
        found: dict[Bin, list[int]] = {}
        for position, broker in enumerate(self.order):
            found.setdefault(self._bins[broker], []).append(position)
        return found


def has_racks(racks: Mapping[int, str | None]) -> bool:
    """Whether racks are respected: Kafka does so when every broker has one."""
    return None not in racks.values()


def _alternated(racks: Mapping[int, str | None]) -> list[int]:
    if not has_racks(racks):
        return sorted(racks)
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    names = sorted(by_rack, key=str)
    longest = max((len(brokers) for brokers in by_rack.values()), default=0)
    return [by_rack[name][i] for i in range(longest) for name in names if i < len(by_rack[name])]
