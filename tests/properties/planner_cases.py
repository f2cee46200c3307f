"""Small clusters for the planner, and exhaustive searches to compare it with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations, product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Plan, Snapshot, plan
from spark_ordered_kafka.kafka.values import LogDir
from tests.seeds import examples

SEARCHED = settings(
    max_examples=examples(120), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
RACKS = st.sampled_from(["a", "b", "c"])
Racks = Mapping[int, str | None]
NO_RACKS = st.just(None)


def alive(snapshot: Snapshot) -> list[int]:
    return [broker.id for broker in snapshot.brokers if broker.alive]


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    brokers: int = 5,
    partitions: int = 8,
    racks: st.SearchStrategy[str | None] | None = None,
    capacity: st.SearchStrategy[int] | None = None,
    down: bool = False,
    dead: bool = False,
    factors: int = 3,
    least: tuple[int, int] = (1, 0),
    cordoned: bool = False,
) -> Snapshot:
    """Brokers 0, 1, … with partitions anywhere, ``least`` of each at least.

    ``down`` lets brokers be down and ``cordoned`` be cordoned, ``dead`` partitions be removed ones.
    """
    count = draw(st.integers(least[0], brokers))
    if racks is None:
        racks = NO_RACKS if draw(st.booleans()) else st.sampled_from(["a", "b", "c"])
    known = tuple(
        Broker(
            broker,
            rack=draw(racks),
            alive=not (down and broker > 0 and draw(st.integers(0, 3)) == 0),
            capacity=UNLIMITED if capacity is None else draw(capacity),
            log_dirs=(LogDir("/x", is_cordoned=draw(st.booleans())),) if cordoned else None,
        )
        for broker in range(count)
    )
    alive = {broker.id for broker in known if broker.alive}
    rows = []
    for number in range(draw(st.integers(least[1], partitions))):
        size = draw(st.sampled_from([0, 1, 10, 100]))
        held = draw(
            st.lists(st.integers(0, count - 1), min_size=1, max_size=min(count, factors), unique=True)
        )
        up = [broker for broker in held if broker in alive]
        rows.append(
            Partition(
                draw(st.sampled_from(["t", "u"])),
                number,
                tuple(held),
                up[0] if up else -1,
                isr=tuple(up),
                sizes=tuple([size] * len(held)),
                status=draw(st.sampled_from(["live", "live", "marked", "deleted"])) if dead else "live",
            )
        )
    return Snapshot(known, tuple(rows))


def racks_of(snapshot: Snapshot) -> Racks | None:
    """Broker -> rack; None where racks are not respected: a live broker has none."""
    if any(broker.rack is None for broker in snapshot.brokers if broker.alive):
        return None
    return {b.id: b.rack if b.rack is not None else f"alone-{b.id}" for b in snapshot.brokers}


def spread(racks: Racks | None, brokers: Iterable[int]) -> int:
    """On how many racks brokers are."""
    return 1 if racks is None else len({racks[broker] for broker in brokers})


def applied(snapshot: Snapshot, found: Plan) -> Snapshot:
    """The cluster once a plan is carried out."""
    changes = {(c.partition.topic, c.partition.partition): c for c in found.changes}
    rows = []
    for one in snapshot.partitions:
        change = changes.get((one.topic, one.partition))
        if change is None:
            rows.append(one)
            continue
        size = one.size
        rows.append(
            replace(
                one, replicas=change.replicas, sizes=tuple([size] * len(change.replicas)), isr=change.replicas
            )
        )
    hosted = Counter(broker for one in snapshot.partitions for broker in one.replicas)
    hosted.subtract(Counter(broker for one in rows for broker in one.replicas))
    brokers = tuple(replace(b, capacity=max(0, b.capacity + hosted[b.id])) for b in snapshot.brokers)
    return replace(snapshot, brokers=brokers, partitions=tuple(rows))


def counts(
    snapshot: Snapshot, brokers: Iterable[int] | None = None, live: bool | None = None
) -> dict[int, int]:
    """Replicas by live broker, or by those of ``brokers``; of all partitions, or of (not) ``live`` ones."""
    found = {b.id: 0 for b in snapshot.brokers if b.alive} if brokers is None else dict.fromkeys(brokers, 0)
    for one in snapshot.partitions:
        if live is None or (one.status == "live") == live:
            for broker in one.replicas:
                if broker in found:
                    found[broker] += 1
    return found


def apart(values: Iterable[int]) -> int:
    """By how much the largest and the smallest differ."""
    known = list(values)
    return max(known, default=0) - min(known, default=0)


def check_sound(snapshot: Snapshot, goal: Goal) -> tuple[Plan, Snapshot]:
    """What holds of every plan; the plan, and the cluster after it."""
    found = plan(snapshot, goal)
    assert found == plan(snapshot, goal), "not deterministic"
    shuffled = replace(snapshot, partitions=snapshot.partitions[::-1], brokers=snapshot.brokers[::-1])
    assert found.changes == plan(shuffled, goal).changes, "depends on the order of what is known"
    alive = {broker.id for broker in snapshot.brokers if broker.alive and not broker.is_cordoned}
    gained = Counter(broker for change in found.changes for broker in change.added)
    places = [(change.partition.topic, change.partition.partition) for change in found.changes]
    assert places == sorted(set(places))
    for change in found.changes:
        one = change.partition
        assert change.replicas != one.replicas or change.placed, "a row that changes nothing"
        assert len(set(change.replicas)) == len(change.replicas)
        assert len(change.log_dirs) == len(change.replicas)
        if goal.kind != "replication_factor":
            assert len(change.replicas) == len(one.replicas)
        assert set(change.added) <= alive, "nothing goes to a broker that is down or cordoned"
        assert not one.moving
        assert one.leader >= 0
    for broker in snapshot.brokers:
        assert gained[broker.id] <= broker.capacity or not gained[broker.id]
    copied = sum(len(change.added) + len(change.placed) for change in found.changes)
    assert found.replicas == copied
    assert found.size == sum(
        (change.partition.size or 0) * len(change.added) for change in found.changes
    ) + sum(change.partition.size_on(broker) or 0 for change in found.changes for broker in change.placed)
    assert found.leaders == sum(c.replicas[0] != c.partition.replicas[0] for c in found.changes)
    after = applied(snapshot, found)
    for broker_id, load in found.after.items():
        assert load.replicas == sum(broker_id in one.replicas for one in after.partitions)
        assert load.leaders == sum(broker_id == one.replicas[0] for one in after.partitions)
    return found, after


def placements(
    snapshot: Snapshot, choices: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way for partitions to have replicas out of their ``choices``, within the brokers' capacity."""
    capacity = {broker.id: broker.capacity for broker in snapshot.brokers}
    for chosen in product(*choices):
        gained = Counter(
            broker
            for one, replicas in zip(snapshot.partitions, chosen, strict=True)
            for broker in replicas
            if broker not in one.replicas
        )
        if all(count <= capacity[broker] for broker, count in gained.items()):
            yield chosen


def replica_sets(snapshot: Snapshot, one: Partition, brokers: Sequence[int]) -> list[tuple[int, ...]]:
    """Where a partition's replicas on ``brokers`` may be among these, on no fewer racks than now."""
    racks = racks_of(snapshot)
    kept = [broker for broker in one.replicas if broker not in brokers]
    free = [broker for broker in brokers if broker not in kept]
    least = spread(racks, one.replicas)
    return [
        (*kept, *some)
        for some in combinations(free, len(one.replicas) - len(kept))
        if spread(racks, (*kept, *some)) >= least
    ]


def fewest_apart(leaders: Sequence[Sequence[int]], brokers: Sequence[int]) -> int:
    """The least by which counts of leaders can differ when each partition is led by one of its ``leaders``."""

    @cache
    def best(number: int, load: tuple[int, ...]) -> int:
        if number == len(leaders):
            return apart(load)
        return min(
            best(number + 1, tuple(c + (b == one) for c, b in zip(load, brokers, strict=True)))
            for one in leaders[number]
        )

    return best(0, (0,) * len(brokers))


def orders(replicas: Sequence[int]) -> list[tuple[int, ...]]:
    """All orders of replicas."""
    return list(permutations(replicas))
