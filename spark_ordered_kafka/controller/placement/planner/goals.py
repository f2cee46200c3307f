"""How each goal changes the replica lists. PURE."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_ordered_kafka.controller.placement.planner.leader_rates import even_out_rates
from spark_ordered_kafka.controller.placement.planner.leaders import level_leaders
from spark_ordered_kafka.controller.placement.planner.leveling import level
from spark_ordered_kafka.controller.placement.planner.needs import place, place_one_by_one
from spark_ordered_kafka.controller.placement.planner.replicas import ReplicaMoves
from spark_ordered_kafka.controller.placement.planner.swaps import even_out_bytes
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.errors import RequestError


def drain(table: Table, drained: Collection[int]) -> list[str]:
    """Move all replicas off ``drained``, and no others. Returns warnings; raises RequestError as :func:`place`."""
    needs = {
        partition: going
        for partition in table.movable
        if (going := [broker for broker in table.replicas[partition] if broker in drained])
    }
    return _move_off(table, drained, needs, "draining broker")


def replace_replicas(table: Table, brokers: Collection[int]) -> list[str]:
    """Move replicas that are in no online log directory of ``brokers`` to other brokers.

    Partitions whose replicas on another of ``brokers`` are in an online one keep those. Returns warnings; raises RequestError
    as :func:`place`.
    """
    needs = {}
    for partition in table.movable:
        one = table.of(partition)
        lost = {b for b in brokers if one.log_dirs and table.ids[b] in one.replicas}
        going = [b for b in table.replicas[partition] if b in lost and one.log_dir_on(table.ids[b]) is None]
        if going:
            needs[partition] = going
    return _move_off(table, brokers, needs, "replacing replicas of broker")


def _move_off(table: Table, brokers: Collection[int], needs: dict[int, list[int]], what: str) -> list[str]:
    """Move replicas from ``brokers`` as ``needs`` says, to all others that are not cordoned."""
    targets = [broker for broker in table.alive if broker not in brokers and broker not in table.cordoned]
    racks = {table.rack[broker] for broker in targets}
    fewer = 0
    for partition, going in needs.items():
        kept = {table.rack[broker] for broker in table.replicas[partition] if broker not in going}
        possible = len(kept) + min(len(going), len(racks - kept))
        if possible < table.floor[partition]:
            fewer += 1
            table.floor[partition] = possible
    shown = _shown(table, brokers)
    place(table, needs, targets, f"{what} {shown}")
    _level_new_leaders(table, targets)
    return (
        [f"partitions that come on fewer racks, since without broker {shown} there are not enough: {fewer}"]
        if fewer
        else []
    )


def repair_racks(table: Table, brokers: Collection[int], kept: Collection[int] = ()) -> None:
    """Move replicas that share a rack to racks of ``brokers`` where their partition has none, and only as many as needed.

    Replicas on ``kept`` move only where no other helps. Raises RequestError GUARD_RAILS where capacity does not suffice for
    all of them.
    """
    racks = {table.rack[broker] for broker in brokers}
    needs: dict[int, list[int]] = {}
    for partition in table.movable:
        spare = _on_shared_racks(table, partition, kept)
        there = table.spread(table.replicas[partition])
        new = racks - {table.rack[broker] for broker in table.replicas[partition]}
        going = spare[: len(new)]
        if going:
            needs[partition] = going
            table.floor[partition] = there + len(going)
    place(table, needs, brokers, "repairing the spread over racks")
    _level_new_leaders(table, brokers)


def repair_racks_where_there_is_room(
    table: Table, brokers: Collection[int], kept: Collection[int]
) -> list[str]:
    """As :func:`repair_racks`, for as many replicas as capacity allows (D-301). Returns warnings."""
    state = table.saved()
    try:
        repair_racks(table, brokers, kept)
    except RequestError:
        table.restore(state)
    else:
        return []
    shared = place_one_by_one(table, lambda partition: _on_shared_racks(table, partition, kept), brokers)
    _level_new_leaders(table, brokers)
    if not shared:
        return []
    return [f"partitions that share racks, since brokers on other racks have no capacity: {shared}"]


def spread(table: Table, onto: Collection[int]) -> list[str]:
    """Move replicas to ``onto`` until each broker has its fair share; no other broker receives any."""
    lacking = 0
    for pool in table.pools():
        moves = ReplicaMoves(table, pool)
        share, more = divmod(sum(moves.counts[b] for b in table.alive), len(table.alive))
        lacking += _fill(moves, onto, share)
        if more:
            # The remainder comes from the brokers with most replicas.
            _fill(moves, onto, share + 1)
    level_leaders(table, table.alive, table.changed())
    if not lacking:
        return []
    return [
        f"broker {_shown(table, onto)} would have to take {lacking} replicas more for a fair share, but racks, capacity or "
        "what is left out do not allow it"
    ]


def _fill(moves: ReplicaMoves, onto: Collection[int], share: int) -> int:
    """Give ``onto`` ``share`` replicas each, from others that have more; returns how many of those are still missing."""
    others = [broker for broker in moves.table.alive if broker not in onto]
    deficit = {b: share - moves.counts[b] for b in sorted(onto) if moves.counts[b] < share}
    target_level = _water_level([moves.counts[b] for b in others], sum(deficit.values()))
    # From the fullest brokers, down to the level of the others; then from all above their share, repeated as long as moves
    # make other moves of the same partition possible.
    levels = [max(share, target_level + 1), max(share, target_level), share]
    while levels and any(deficit.values()):
        most, left = levels.pop(0), sum(deficit.values())
        moves.direct({b: moves.counts[b] - most for b in others if moves.counts[b] > most}, deficit)
        if not levels and left != sum(deficit.values()):
            levels.append(share)
    spare = sum(max(0, moves.counts[b] - share) for b in others)
    return min(spare, sum(deficit.values()))


def balance(table: Table, brokers: Collection[int]) -> None:
    """Even out replicas, then bytes, then preferred leaders among ``brokers``."""
    for pool in table.pools():
        moves = ReplicaMoves(table, pool)
        level(moves, brokers)
        even_out_bytes(moves, brokers)
    leaders(table, brokers)


def leaders(table: Table, brokers: Collection[int]) -> None:
    """Even out preferred leaders among ``brokers``, then the bytes per second that are written to them; no replica moves."""
    level_leaders(table, brokers, table.movable)
    even_out_rates(table, brokers)


def _level_new_leaders(table: Table, brokers: Collection[int]) -> None:
    """Spread the preferred leaders of the partitions whose leader has changed."""
    changed = [p for p in table.changed() if table.replicas[p][0] != table.before[p][0]]
    level_leaders(table, brokers, changed)


def _on_shared_racks(table: Table, partition: int, kept: Collection[int]) -> list[int]:
    """Brokers whose rack has a better replica of the partition, the worst first; those of ``kept`` are best."""
    one = table.of(partition)
    alive = set(table.alive)
    replicas = table.replicas[partition]

    def preference(broker: int) -> tuple[bool, bool, bool, bool, int]:
        broker_id = table.ids[broker]
        in_sync = broker_id in one.isr
        return broker in alive, broker in kept, in_sync, broker_id == one.leader, -replicas.index(broker)

    seen: set[int] = set()
    spare = []
    for broker in sorted(replicas, key=preference, reverse=True):
        if table.rack[broker] in seen:
            spare.append(broker)
        seen.add(table.rack[broker])
    return spare[::-1]


def _water_level(counts: Sequence[int], taken: int) -> int:
    """The count to which the fullest must be lowered to take ``taken`` items from them."""
    level_now, left = max(counts, default=0), taken
    ordered = sorted(counts, reverse=True)
    for number, count in enumerate(ordered, start=1):
        following = ordered[number] if number < len(ordered) else 0
        room = (count - following) * number
        level_now = count
        if room >= left:
            return max(0, count - -(-left // number))
        left -= room
    return level_now


def _shown(table: Table, brokers: Collection[int]) -> str:
    return ", ".join(str(table.ids[broker]) for broker in sorted(brokers))
