"""Planted faults fit the code, their tests exist, and the quickest of them are planted and found."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_ordered_kafka.native.loading import kernel
from tests.planted.page import rows, short
from tests.planted.running import Line, check_patch, try_with
from tests.planted.table import HERE, ROOT, Fault, faults

FAULTS = faults()
QUICK = ("09-gate-one-parent-early",)
"""Judged by models and pure functions."""
OF_ANY_FAILURE = (
    "",
    "assert False",
    "assert 0 == 1",
    "assert [] == [1]",
    "assert {} == {0: 1}\n  \n  Right contains 1 more item:\n  {0: 1}",
    "assert 'a' in 'b'",
    "DID NOT RAISE <class 'Exception'>",
    "not within 30 s: it is done",
    "no answer of the controllers",
)
"""What tests say that fail for other reasons than a fault."""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patches")


@needs_git
@pytest.mark.parametrize("name", FAULTS)
def test_a_patch_fits_the_code(name: str) -> None:
    check_patch(FAULTS[name])


def test_every_patch_is_in_the_table() -> None:
    assert sorted(path.stem for path in (HERE / "faults").glob("*.patch")) == sorted(FAULTS)
    assert len(FAULTS) >= 20


def test_every_test_that_is_named_exists() -> None:
    missing = [test for fault in FAULTS.values() for test in fault.tests if not exists(test)]
    assert missing == []
    assert all(fault.tests for fault in FAULTS.values())


@pytest.mark.long
def test_none_is_found_by_long_tests_alone() -> None:
    """What `make test` leaves to `make test-all` is to take time from it, and nothing that it finds."""
    named = sorted({test for fault in FAULTS.values() for test in fault.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not long", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    found = {line for line in done.stdout.splitlines() if "::" in line}
    assert found, done.stdout + done.stderr
    left = [
        name
        for name, fault in FAULTS.items()
        if not any(line == test or line.startswith(f"{test}[") for test in fault.tests for line in found)
    ]
    assert left == []


@pytest.mark.parametrize("text", OF_ANY_FAILURE)
def test_no_words_of_a_fault_are_those_of_any_failure(text: str) -> None:
    assert [name for name, fault in FAULTS.items() if re.search(fault.says, text)] == []


def test_the_page_has_every_fault_as_it_is_in_the_table() -> None:
    shown = rows()
    assert list(shown) == list(FAULTS)
    for name, row in shown.items():
        fault = FAULTS[name]
        assert fault.breaks in row
        assert fault.promise in row
        assert re.findall(r"`([\w/]+\.py::[^`]+)`", row) == [short(test) for test in fault.tests]
        assert "not found" not in row


@pytest.mark.long
@needs_git
@pytest.mark.skipif(kernel() is None, reason="the tests of planted faults require the kernel")
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_fault_is_found(name: str) -> None:
    outcome = try_with(FAULTS[name])
    assert outcome.found, outcome.missed


@pytest.mark.parametrize(
    ("kinds", "text", "when", "expected"),
    [
        (["builtins.AssertionError"], "assert 1 == 2", "call", True),
        (["builtins.Failed"], "DID NOT RAISE, 1 == 2", "call", True),
        (["x.DataLossError", "spark_ordered_kafka.errors.OrderedKafkaError"], "1 == 2", "call", True),
        (["builtins.Failed"], "Timeout (>600.0s) from pytest-timeout: 1 == 2", "call", False),
        (["builtins.AssertionError"], "other words", "call", False),
        (["builtins.AssertionError"], "1 == 2", "setup", False),
        (["builtins.ImportError"], "1 == 2", "call", False),
        (["builtins.SyntaxError"], "1 == 2", "call", False),
    ],
)
def test_what_counts_as_found(kinds: list[str], text: str, when: str, expected: bool) -> None:
    fault = Fault("f", "", "", ("t",), "1 == 2")
    assert Line("t", when, "failed", kinds, text, 0.0).finds(fault) == expected


def exists(test: str) -> bool:
    """Whether a node id names a function of a test file, or of a class in it."""
    file, *_, name = test.split("::")
    path = Path(ROOT, file)
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text())
    return any(
        isinstance(node, ast.FunctionDef) and node.name == name.partition("[")[0] for node in ast.walk(tree)
    )
