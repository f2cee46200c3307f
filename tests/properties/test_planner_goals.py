"""Plans of leaders alone, and of replicas in no online directory."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import (
    Broker,
    Goal,
    Partition,
    Snapshot,
    leader_rates,
    plan,
)
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.kafka.values import LogDir
from tests.properties.planner_cases import (
    NO_RACKS,
    SEARCHED,
    alive,
    check_sound,
    clusters,
)


def rates_by_leader(snapshot: Snapshot) -> dict[int, float]:
    found = dict.fromkeys(alive(snapshot), 0.0)
    for one in snapshot.partitions:
        if one.status == "live" and one.replicas[0] in found:
            found[one.replicas[0]] += one.write_rate
    return found


@st.composite
def written(draw: st.DrawFn) -> Snapshot:
    snapshot = draw(clusters(brokers=4, partitions=6, racks=NO_RACKS))
    rates = st.sampled_from([0.0, 1.0, 2.0, 7.0, 30.0])
    rows = tuple(replace(one, write_rate=draw(rates)) for one in snapshot.partitions)
    return replace(snapshot, partitions=rows)


@SEARCHED
@given(written())
def test_leaders_are_evened_out_by_number_and_then_by_what_is_written(snapshot: Snapshot) -> None:
    found, after = check_sound(snapshot, Goal("leaders"))
    assert found.replicas == 0
    brokers = alive(snapshot)
    by_number = check_sound(
        replace(snapshot, partitions=tuple(replace(one, write_rate=0.0) for one in snapshot.partitions)),
        Goal("leaders"),
    )[1]

    def leaders(one: Snapshot) -> list[int]:
        return sorted(sum(row.replicas[0] == broker for row in one.partitions) for broker in brokers)

    assert leaders(after) == leaders(by_number), "rates do not make the numbers uneven"
    rates = rates_by_leader(after)
    led = Counter(row.replicas[0] for row in after.partitions)
    mean = sum(rates.values()) / len(brokers)
    squares = sum(rate**2 for rate in rates.values())
    # Brute force: no exchange of two leaders, nor the move of one, helps where brokers are apart.
    changes = [(one, None) for one in after.partitions] + list(permutations(after.partitions, 2))
    for given_up, taken in changes:
        source = given_up.replicas[0]
        targets = given_up.replicas[1:] if taken is None else (taken.replicas[0],)
        for target in targets:
            allowed = target in given_up.replicas and target != source
            allowed &= led[source] > led[target] if taken is None else source in taken.replicas
            apart_now = rates[source] > 1.1 * mean or rates[target] < 0.9 * mean
            if allowed and apart_now and rates[source] > rates[target]:
                moved = given_up.write_rate - (0.0 if taken is None else taken.write_rate)
                then = squares - rates[source] ** 2 - rates[target] ** 2
                then += (rates[source] - moved) ** 2 + (rates[target] + moved) ** 2
                assert then >= squares - 1e-6, (given_up, taken)
    assert not plan(after, Goal("leaders")).changes


def test_no_pair_of_brokers_is_tried_again_before_one_of_them_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition that is written to more than all others keeps every other broker below the mean: most pairs have no exchange,
    and 30,000 partitions on 100 brokers would take a minute."""
    tried: Counter[tuple[int, ...]] = Counter()
    best = leader_rates._best

    def counting(table: Table, led: Any, source: int, target: int, between: float, *, alone: bool) -> Any:
        leading = (r[0] if r[0] in (source, target) else -1 for r in table.replicas)
        tried[source, target, *leading] += 1
        return best(table, led, source, target, between, alone=alone)

    monkeypatch.setattr(leader_rates, "_best", counting)
    chosen = random.Random(1)
    rows = []
    for number in range(300):
        replicas = tuple(chosen.sample(range(12), 3))
        rate = 10.0**9 if number == 0 else chosen.expovariate(1)
        rows.append(Partition("t", number, replicas, replicas[0], replicas, (1, 1, 1), write_rate=rate))
    found = plan(Snapshot(tuple(Broker(number) for number in range(12)), tuple(rows)), Goal("leaders"))
    assert found.leaders
    assert set(tried.values()) == {1}


@given(clusters(brokers=5, partitions=8), st.data())
def test_replicas_in_no_online_directory_go_elsewhere_and_nothing_else_moves(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    broker = data.draw(st.sampled_from([one.id for one in snapshot.brokers]))
    left = [one.id for one in snapshot.brokers if one.id != broker]
    assume(left)
    known = tuple(replace(one, log_dirs=(LogDir("/a"), LogDir("/b", 56))) for one in snapshot.brokers)
    rows = []
    for one in snapshot.partitions:
        lost = data.draw(st.booleans())
        dirs = tuple(None if lost and b == broker else "/a" for b in one.replicas)
        rows.append(replace(one, log_dirs=dirs))
    cluster = replace(snapshot, brokers=known, partitions=tuple(rows))
    lost_ones = [one for one in rows if None in one.log_dirs]
    assume(all(set(left) - set(one.replicas) for one in lost_ones))
    found, _ = check_sound(cluster, Goal("replace_replicas", brokers=(broker,)))
    assert {(c.partition.topic, c.partition.partition) for c in found.changes} == {
        (one.topic, one.partition) for one in lost_ones
    }
    assert found.replicas == len(lost_ones)
    for change in found.changes:
        assert broker not in change.replicas
        assert set(change.partition.replicas) - {broker} <= set(change.replicas)
