"""Makes a plan from a cluster and a goal. PURE."""

from __future__ import annotations

from collections import Counter

from spark_ordered_kafka.controller.placement.guards import naming_cordoned
from spark_ordered_kafka.controller.placement.planner import goals
from spark_ordered_kafka.controller.placement.planner import log_dir_replicas as log_dirs
from spark_ordered_kafka.controller.placement.planner.checks import check, check_fields
from spark_ordered_kafka.controller.placement.planner.replication_factor import change_factor
from spark_ordered_kafka.controller.placement.planner.table import State, Table
from spark_ordered_kafka.controller.placement.planner.values import Change, Goal, Load, Plan, Snapshot
from spark_ordered_kafka.controller.placement.planner.volumes import make_fit
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.listed import listed

_SHOWN = 5


def plan(snapshot: Snapshot, goal: Goal) -> Plan:
    """Changes for ``goal``, moving as little as possible; the same for the same input.

    All of ``snapshot.partitions`` are planned; the caller selects by ``goal.topics``. Partitions that are being
    reassigned, and those without a leader, stay as they are. Raises RequestError: the goal does not fit the cluster, or
    GUARD_RAILS when brokers have no capacity for it.
    """
    check_fields(goal)
    check(goal, snapshot)
    table = Table(snapshot)
    before = _loads(table)
    placed: log_dirs.Placements = {}
    warnings = _warnings(snapshot, goal)
    if goal.kind in ("empty_log_dirs", "balance_log_dirs"):
        placed = _plan_log_dirs(snapshot, goal)
    else:
        with naming_cordoned([table.ids[broker] for broker in table.cordoned]):
            warnings += _reassign(table, snapshot, goal)
    changed = _changes(table, placed)
    sizes = [size for change in changed for size in _copied(change)]
    known = [size for size in sizes if size is not None]
    return Plan(
        changes=changed,
        size=sum(known) if len(known) == len(sizes) else None,
        replicas=len(sizes),
        leaders=sum(1 for change in changed if change.replicas[0] != change.partition.replicas[0]),
        before=before,
        after=_loads(table),
        warnings=tuple(warnings),
    )


def _reassign(table: Table, snapshot: Snapshot, goal: Goal) -> list[str]:
    """Reach the goals one after another on the same table; each keeps what those before it have reached (D-300)."""
    named = [table.index[broker] for broker in goal.brokers or ()]
    leaving = named if goal.kind in ("drain", "replace_replicas") else []
    staying = [broker for broker in table.alive if broker not in leaving]
    left = [broker for broker in staying if broker not in table.cordoned]
    warnings: list[str] = []
    if leaving:
        move_off = goals.drain if goal.kind == "drain" else goals.replace_replicas
        warnings = move_off(table, set(named))
    elif goal.kind == "spread":
        warnings = goals.spread(table, set(named))
    elif goal.replication_factor is not None:
        change_factor(table, snapshot, goal.replication_factor)
    elif goal.kind == "racks":
        goals.repair_racks(table, left)
    table.keep_spread()
    make_fit(table, named if goal.kind == "spread" else left)
    if "racks" in (goal.also or ()):
        warnings = _spread_over_racks(table, goal, left, named, warnings)
    # Of the further goals alone: what is named belongs to the first one.
    by_name = bool(named) and goal.kind in ("balance", "leaders")
    wanted = (goal.kind, *(goal.also or ()))
    if "balance" in wanted:
        among = named if by_name else left
        state = table.saved()
        goals.balance(table, among)
        if (why := _unfit(table, among, state)) is not None:
            warnings.append(f"numbers of replicas and bytes are not evened out: {why}")
            goals.leaders(table, among)
    elif "leaders" in wanted:
        # Cordoned brokers, too, may lead what they have.
        goals.leaders(table, named if by_name else staying)
    return warnings


def _spread_over_racks(
    table: Table, goal: Goal, left: list[int], named: list[int], warnings: list[str]
) -> list[str]:
    """Reach the further goal racks. ``warnings`` are those of the first goal; returns those of both."""
    state = table.saved()
    missed = goals.repair_racks_where_there_is_room(table, left, named)
    # Replicas have moved from and to all brokers.
    first = goals.spread(table, set(named)) if goal.kind == "spread" else warnings
    table.keep_spread()
    if (why := _unfit(table, left, state)) is not None:
        return [*warnings, f"partitions are not spread over more racks: {why}"]
    return first + missed


def _unfit(table: Table, targets: list[int], state: State) -> str | None:
    """Let what a further goal copies fit; why it does not, with all taken back since ``state``: it refuses no plan (D-376)."""
    try:
        make_fit(table, targets)
    except RequestError as error:
        table.restore(state)
        return error.message
    return None


def _plan_log_dirs(snapshot: Snapshot, goal: Goal) -> log_dirs.Placements:
    brokers = [broker for broker in snapshot.brokers if broker.id in (goal.brokers or ())]
    if goal.kind == "empty_log_dirs":
        return log_dirs.empty(snapshot, brokers[0], goal.log_dirs or ())
    placed: log_dirs.Placements = {}
    for broker in brokers:
        for tp, paths in log_dirs.balance(snapshot, broker).items():
            placed.setdefault(tp, {}).update(paths)
    return placed


def _warnings(snapshot: Snapshot, goal: Goal) -> list[str]:
    named = set(goal.brokers or ())
    moving = [one for one in snapshot.partitions if one.moving]
    without = [one for one in snapshot.partitions if one.leader < 0 and not one.moving]
    moving_log_dir = []
    if goal.kind in ("empty_log_dirs", "balance_log_dirs"):
        without = []
        moving = [one for one in moving if named.intersection(one.replicas)]
        moving_log_dir = [
            one for one in snapshot.partitions if named.intersection(one.moving_log_dir) and not one.moving
        ]
    warnings = []
    cordoned = [one.id for one in snapshot.brokers if one.alive and one.is_cordoned and one.id not in named]
    if cordoned and goal.kind not in ("leaders", "empty_log_dirs", "balance_log_dirs"):
        warnings.append(f"cordoned, so they get nothing: brokers {listed(cordoned, _SHOWN)}")
    for rows, why in (
        (moving, "being reassigned already"),
        (without, "without a leader"),
        (moving_log_dir, "moving between log directories already"),
    ):
        if rows:
            shown = listed(rows, _SHOWN, lambda one: f"{one.topic}-{one.partition}")
            warnings.append(f"left out, since {why}: {shown}")
    return warnings


def _changes(table: Table, placed: log_dirs.Placements) -> tuple[Change, ...]:
    changed = set(table.changed())
    rows = []
    for number, one in enumerate(table.partitions):
        paths = placed.get((one.topic, one.partition), {}) if placed else {}
        if number in changed or paths:
            replicas = tuple(table.ids[broker] for broker in table.replicas[number])
            rows.append(Change(one, replicas, tuple(paths.get(broker) for broker in replicas)))
    return tuple(rows)


def _copied(change: Change) -> list[int | None]:
    """Bytes of each replica that is to be copied."""
    one = change.partition
    return [*(one.size for _ in change.added), *(one.size_on(broker) for broker in change.placed)]


def _loads(table: Table) -> dict[int, Load]:
    all_partitions = range(len(table.partitions))
    replicas, size = table.counts(all_partitions), table.bytes(all_partitions)
    leaders = Counter(brokers[0] for brokers in table.replicas)
    return {b: Load(replicas[n], leaders[n], size[n]) for n, b in enumerate(table.ids)}
