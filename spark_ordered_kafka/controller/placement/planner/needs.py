"""New brokers for replicas that have to move. PURE."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from spark_ordered_kafka.controller.placement.guards import refusal
from spark_ordered_kafka.controller.placement.planner.flow import Flow, Layer
from spark_ordered_kafka.controller.placement.planner.leveling import MAX_WORK
from spark_ordered_kafka.controller.placement.planner.replicas import ReplicaMoves, options
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.target_queue import TargetQueue
from spark_ordered_kafka.errors import ErrorCode, RequestError


def place(table: Table, needs: Mapping[int, Sequence[int]], brokers: Collection[int], what: str) -> None:
    """Move replicas to the emptiest of ``brokers``.

    ``needs`` maps partition -> brokers that lose their replica; ``what`` begins the message of an error. Partitions stay on
    as many racks as ``table.floor`` says, and on more where there is room. Raises RequestError GUARD_RAILS when that does
    not fit, INVALID_REPLICATION_FACTOR when a partition has more replicas than there are brokers.
    """
    targets = sorted(brokers)
    room = {table.ids[b]: max(0, table.room[b]) for b in targets}
    gained: list[dict[int, None]] = [{} for _ in table.ids]
    for pool in table.pools():
        members = set(pool)
        pool_needs = {p: sources for p, sources in needs.items() if p in members}
        if pool_needs:
            _place_greedily(ReplicaMoves(table, pool), pool_needs, targets, gained, what)
    excess = {b: -table.room[b] for b in targets if table.room[b] < 0}
    if not excess:
        return
    deficit = {b: table.room[b] for b in targets if table.room[b] > 0}
    Flow(_Gained(table, gained), targets, MAX_WORK).push(excess, deficit)
    unplaced = sum(excess.values())
    if unplaced:
        moved = sum(map(len, needs.values()))
        raise refusal(f"{what}: {unplaced} of {moved} replicas have no place", room)


def place_one_by_one(table: Table, shared: Callable[[int], Sequence[int]], brokers: Collection[int]) -> int:
    """Bring as many partitions as possible on more racks, within the capacity of ``brokers``.

    ``shared`` gives the brokers of a partition whose rack has another replica of it. What this plan has moved already makes
    way, as far as ``table.floor`` allows. Returns how many partitions still share racks though ``brokers`` have others.
    """
    racks = {table.rack[broker] for broker in brokers}
    placing = _OneByOne(table, sorted(brokers))
    lacking = list(table.movable)
    progress = True
    while progress:
        progress = False
        placing.stuck.clear()
        left, lacking = lacking, []
        for partition in left:
            while going := shared(partition):
                if not racks - {table.rack[broker] for broker in table.replicas[partition]}:
                    break
                if not placing.on_another_rack(partition, going):
                    lacking.append(partition)
                    break
                progress = True
    return len(lacking)


class _OneByOne:
    """Replicas that go to other racks one after another, while those that the plan has moved make way."""

    def __init__(self, table: Table, targets: Sequence[int]) -> None:
        self._table = table
        self._targets = targets
        gained: list[dict[int, None]] = [{} for _ in table.ids]
        for partition in table.changed():
            for broker in set(table.replicas[partition]).difference(table.before[partition]):
                gained[broker][partition] = None
        self._gained = _Gained(table, gained)
        self._flow = Flow(self._gained, targets, MAX_WORK)
        self.stuck: set[int] = set()

    def on_another_rack(self, partition: int, going: Sequence[int]) -> bool:
        """Move one of the replicas ``going`` to a rack where the partition has none; False if no target can make room."""
        table = self._table
        used = {table.rack[broker] for broker in table.replicas[partition]}
        targets = sorted(
            (b for b in self._targets if table.rack[b] not in used), key=lambda b: (-table.room[b], b)
        )
        table.floor[partition] += 1
        for source in going:
            stays = source in table.before[partition]
            for target in targets:
                if stays and target in self.stuck:
                    continue
                if self._moved(partition, source, target):
                    return True
                if stays:
                    self.stuck.add(target)
        table.floor[partition] -= 1
        return False

    def _moved(self, partition: int, source: int, target: int) -> bool:
        table = self._table
        self._gained.move(partition, source, target)
        if table.room[target] >= 0:
            return True
        excess = {target: 1}
        self._flow.push(excess, {b: table.room[b] for b in self._targets if table.room[b] > 0})
        if excess[target]:
            self._gained.move(partition, target, source)
        return not excess[target]


def _place_greedily(
    moves: ReplicaMoves,
    needs: Mapping[int, Sequence[int]],
    targets: Sequence[int],
    gained: Sequence[dict[int, None]],
    what: str,
) -> None:
    """Largest first. Where no allowed target has room, a target is overfilled; the flow in :func:`place` then evens out."""
    table = moves.table
    open_targets = TargetQueue([b for b in targets if moves.open(b)], table.rack, moves.load)
    all_targets = TargetQueue(targets, table.rack, moves.load)
    for partition in sorted(needs, key=lambda one: (-table.size[one], one)):
        going = set(needs[partition])
        for source in needs[partition]:
            kept = [broker for broker in table.replicas[partition] if broker not in going]
            used = {table.rack[broker] for broker in kept} if table.racked else set()
            must = used if len(used) < table.floor[partition] else ()
            target = open_targets.best(used, kept)
            if target is None and not must:
                target = open_targets.best((), kept)
            if target is None:
                target = all_targets.best(must, kept)
            if target is None:
                raise _too_few(table, partition, len(targets), what)
            going.discard(source)
            moves.move(partition, source, target)
            gained[target][partition] = None
            all_targets.update(target)
            if moves.open(target):
                open_targets.update(target)
            else:
                open_targets.remove(target)


def _too_few(table: Table, partition: int, brokers: int, what: str) -> RequestError:
    one = table.of(partition)
    taking = "up and not cordoned" if table.cordoned else "up"
    return RequestError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"{what}: partition {one.partition} of topic {one.topic!r} has {len(one.replicas)} replicas, more than there are "
        f"brokers left that are {taking} ({brokers})",
    )


class _Gained:
    """Replicas that brokers got in this plan: only these are moved again to make room."""

    def __init__(self, table: Table, gained: Sequence[dict[int, None]]) -> None:
        self._table = table
        self._gained = gained
        self.rack: Sequence[int] = table.rack

    def items(self, broker: int) -> Sequence[int]:
        """Partitions of which it got a replica in this plan."""
        return list(self._gained[broker])

    def options(self, item: int, broker: int, layer: Layer) -> Iterator[int]:
        """Brokers of ``layer`` that may have the replica instead."""
        return options(self._table, item, broker, layer)

    def open(self, broker: int) -> bool:
        """True for every broker: one without room passes on a replica that it got."""
        return True

    def move(self, item: int, source: int, target: int) -> None:
        """Move the replica on to ``target``, from where it was before or where it got in this plan."""
        self._table.move(item, source, target)
        before = self._table.before[item]
        if source not in before:
            del self._gained[source][item]
        if target not in before:
            self._gained[target][item] = None
