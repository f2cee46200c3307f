"""What follows from the samples of a run."""

from __future__ import annotations

import json
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.figures import OURS, Measurement, Report, Sample, Spread, alternate
from benchmarks.scale import TINY

amounts = st.floats(0.001, 1e9)
samples = st.builds(
    Sample,
    amounts,
    st.integers(0, 10**9),
    *[st.none() | amounts] * 4,
)
measurements = st.builds(
    Measurement,
    st.text(),
    st.text(),
    st.sampled_from(["records/s", "ms", "s", "MB"]),
    st.sampled_from(["more", "less"]),
    st.dictionaries(st.sampled_from([OURS, "other", "third"]), st.lists(samples, max_size=3)),
    st.none() | amounts,
    st.just("value"),
    st.text(),
)


def compared(better: str, ours: list[float], other: list[float], goal: float | None) -> Measurement:
    runs = {OURS: [Sample(value) for value in ours], "other": [Sample(value) for value in other]}
    return Measurement("part", "title", "records/s", "more" if better == "more" else "less", runs, goal)


def test_ratios_are_of_the_runs_of_a_round() -> None:
    found = compared("more", [90.0, 8.0, 2.0], [100.0, 10.0, 1.0], None)
    assert found.ratio("other") == Spread(0.9, 0.8, 2.0)
    assert found.spread(OURS) == Spread(8.0, 2.0, 90.0)
    assert found.reached() is None


def test_a_goal_is_reached_from_its_side() -> None:
    assert compared("more", [2.0], [1.0], 2.0).reached() is True
    assert compared("more", [1.9], [1.0], 2.0).reached() is False
    assert compared("less", [1.8], [1.0], 1.8).reached() is True
    assert compared("less", [1.9], [1.0], 1.8).reached() is False


def test_a_goal_may_be_of_our_own_value() -> None:
    runs = {OURS: [Sample(19.0)], "other": [Sample(1.0)]}
    assert Measurement("part", "title", "ms", "less", runs, 20.0, "value").reached() is True
    assert Measurement("part", "title", "ms", "less", runs, 18.0, "value").reached() is False


def test_what_did_not_run_has_no_figures() -> None:
    found = compared("more", [], [1.0], 2.0)
    assert (found.ratio("other"), found.spread(OURS), found.reached()) == (None, None, None)
    assert found.cpu_per_million("other", "cpu") is None
    assert found.peak_mb("other", "worker_mb") is None


def test_costs_are_by_record_and_peaks_of_any_run() -> None:
    runs = [Sample(1.0, 500_000, cpu, None, mb) for cpu, mb in ((1.0, 100.0), (2.0, 300.0), (4.0, 200.0))]
    found = Measurement("part", "title", "s", "less", {OURS: runs})
    assert found.cpu_per_million(OURS, "cpu") == 4.0
    assert found.cpu_per_million(OURS, "broker_cpu") is None
    assert found.peak_mb(OURS, "worker_mb") == 300.0


def test_contenders_run_by_turns_and_every_second_round_backwards() -> None:
    order: list[str] = []

    def run(name: str) -> Sample:
        order.append(name)
        return Sample(float(len(order)))

    found = alternate(["a", "b"], run, rounds=3, warm_ups=1)
    assert "".join(order) == "baabbaab"
    assert {name: [sample.value for sample in taken] for name, taken in found.items()} == {
        "a": [3.0, 6.0, 7.0],
        "b": [4.0, 5.0, 8.0],
    }


@settings(max_examples=30)
@given(st.lists(measurements, max_size=2))
def test_a_report_survives_json(found: list[Measurement]) -> None:
    report = Report({"Python": "3"}, "2026-01-01T00:00:00Z", asdict(TINY), found)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
