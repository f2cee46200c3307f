"""The judge of quiet runs finds what grows, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.nemesis.journal import Event
from tests.nemesis.network import ROOT
from tests.quiet.growth import BOUNDS, check_growth, figures
from tests.quiet.measuring import measured

_MIB = 2**20
_STEADY = {"rss": 100 * _MIB, "processes": 1, "threads": 10, "files": 20, "connections": 4, "cpu": 1.0}


def _samples(name: str = "writer", **slopes: float) -> list[Event]:
    """An hour of samples, one a minute; each figure of ``slopes`` grows by so much over the hour."""
    return [
        {"action": "usage", "of": name, "at": 60.0 * number}
        | {what: value + slopes.get(what, 0.0) * number / 60 for what, value in _STEADY.items()}
        for number in range(61)
    ]


def test_what_stays_as_it_is_has_not_grown() -> None:
    assert check_growth(_samples()) == []


@pytest.mark.parametrize("what", BOUNDS)
def test_each_figure_that_grows_is_found(what: str) -> None:
    (found,) = check_growth(_samples("writer", **{what: 20 * _STEADY[what]}))
    assert found.startswith(f"{what} of writer has grown from ")


def test_what_follows_the_partition_count_has_not_grown_and_a_leak_beside_it_has() -> None:
    def events(leak: float) -> Iterator[Event]:
        for number, sample in enumerate(_samples()):
            count = (2, 5, 8)[number // 10 % 3]
            if number % 10 == 0:
                yield {"action": "changed", "at": sample["at"], "partitions": count}
            yield sample | {"threads": 10.0 * count + leak * number / 60}

    assert check_growth(list(events(0))) == []
    assert check_growth(list(events(40))) != []


def test_what_grows_while_it_warms_up_is_no_leak() -> None:
    early = [event | {"rss": _MIB * (10 + event["at"] / 60)} for event in _samples() if event["at"] < 600]
    assert check_growth([*early, *(event for event in _samples() if event["at"] >= 600)]) == []


def test_java_may_use_its_heap() -> None:
    assert check_growth(_samples("query/java", rss=60 * _MIB)) == []
    assert check_growth(_samples("query/python", rss=60 * _MIB)) != []


def test_a_run_without_samples_is_no_proof() -> None:
    assert check_growth([{"action": "begin", "at": 0.0}]) == ["nothing was measured"]


def test_figures_are_a_table() -> None:
    events: list[Event] = [{"action": "begin", "at": 0.0}, *_samples(), {"action": "end", "at": 3600.0}]
    first, head, _, row = figures([*events, {"action": "read", "at": 3601.0, "records": 7}]).splitlines()
    assert first == "60 minutes, 7 records, 0 partition changes of each topic"
    assert head.startswith("| process | memory, MiB |")
    assert row == "| writer | 100 → 100 | 1 → 1 | 10 → 10 | 20 → 20 | 4 → 4 | 0.0% |"


def test_children_are_measured_by_their_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"]
    ) as root:
        try:
            while "root/sleep" not in (found := measured({"root": root.pid})):
                assert root.poll() is None
        finally:
            for one in _children(root.pid):
                one.kill()
            root.kill()
    assert found["root/sleep"]["processes"] == 1
    assert found["root"]["rss"] > 0


def _children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_short_run_copies_every_record_once(tmp_path: Path) -> None:
    """Growth is not judged: all of a short run is warm-up."""
    arguments = ["--minutes", "1.5", "--every", "0.25", "--sample", "5", "--directory", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.quiet.run", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    violations = run.stdout.partition(" violations\n")[2].splitlines()
    assert [one for one in violations if "has grown" not in one] == [], run.stdout + run.stderr
    events = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    measured_processes = {event["of"] for event in events if event["action"] == "usage"}
    assert {
        "writer",
        "copier",
        "query",
        "query/java",
        "query/python",
        "broker-1",
        "controller-1",
    } <= measured_processes
    assert sum(event["action"] == "changed" for event in events) >= 2
