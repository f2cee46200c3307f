"""The order in which Kafka's round robin goes through brokers (KIP-36). PURE."""

from __future__ import annotations

from collections.abc import Mapping


class Ring:
    """Brokers by id, or rack by rack in turn (``AdminUtils.getRackAlternatedBrokerList``) when each of them has one.

    ``racks`` maps broker id -> rack, of one broker at least; ``order`` has the broker ids.
    """

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self.order = _alternated(racks)
        self._racked = has_racks(racks)
        self._rack = [racks[broker] for broker in self.order]
        self._rack_count = len(set(self._rack))

    def index_of(self, broker: int) -> int:
        """The broker's index; for a missing one that of the next id, as in Kafka."""
        if broker in self.order:
            return self.order.index(broker)
        return next((i for i, there in enumerate(self.order) if there >= broker), 0)

    def replicas(self, partition: int, factor: int, start: int) -> list[int]:
        """Replicas of partition number ``partition``, when partition 0 begins at index ``start``.

        Every rack gets a replica before one gets a second. Raises ValueError when there are fewer than ``factor`` brokers.
        """
        count = len(self.order)
        if factor > count:
            raise ValueError(f"{factor} replicas cannot be on different ones of {count} brokers")
        leader = (partition + start) % count
        shift = start + partition // count
        if self._racked:
            shift *= self._rack_count
        following = leader if count == 1 else (leader + 1 + shift % (count - 1)) % count
        rack, rack_count = self._rack, self._rack_count if self._racked else 0
        taken: list[int] = []
        used: set[str | None] = set()
        position, upcoming, skipped = leader, following, 0
        while len(taken) < factor:
            another_rack = len(used) < rack_count
            if (another_rack and rack[position] in used) or position in taken:
                skipped += 1
            else:
                taken.append(position)
                used.add(rack[position])
                skipped = 0
            position, upcoming = upcoming, (upcoming + 1) % count
            if another_rack and skipped > 2 * len(used) + 2:
                # Racks take turns, and at the end only those with most brokers are left: if the rest of one turn and all of the
                # next have no wanted rack, no later turn has one. The first turn has them all.
                position, upcoming, skipped = 0, 1 % count, 0
        return [self.order[position] for position in taken]


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
