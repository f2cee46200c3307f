"""Plants a fault in a copy of the project and runs the tests that must find it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.planted.table import ROOT, Fault
from tests.planted.witness import FILE

LIMIT = 600.0
"""Seconds for the tests of one fault."""

_ENDING = 60.0
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "node_modules")
_JUDGED = re.compile(
    r"builtins\.AssertionError|builtins\.Failed|spark_ordered_kafka\.errors\.OrderedKafkaError"
)
# pytest-timeout says it by pytest.fail().
_TIMED_OUT = re.compile(r"Timeout \(?>")


class PlantingError(Exception):
    """A patch does not apply, the kernel does not build, or the tests fail without a fault."""


@dataclass(frozen=True)
class Line:
    """What the witness says of a test; see there. ``kinds``: the error's classes, ``seconds``: since pytest began."""

    test: str
    when: str
    outcome: str
    kinds: list[str]
    text: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether it passed, which a skipped one did not."""
        return self.when == "call" and self.outcome == "passed"

    def finds(self, fault: Fault) -> bool:
        """Whether it failed because of the fault: by an assertion or by one of the package's errors, of the right words."""
        judged = self.when == "call" and any(map(_JUDGED.fullmatch, self.kinds))
        return judged and not _TIMED_OUT.match(self.text) and re.search(fault.says, self.text) is not None


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: the seconds after which each test found it, and what the others said instead."""

    fault: Fault
    seconds: Mapping[str, float]
    missed: Mapping[str, str]

    @property
    def found(self) -> bool:
        """Whether all its tests found it."""
        return not self.missed


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """A copy without what is hidden or built; the kernel is in it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        copy = Path(directory, "project")
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        yield copy


def check_patch(fault: Fault, directory: Path = ROOT) -> None:
    """Raises PlantingError unless the patch fits the files in ``directory``."""
    _apply(fault, directory, "--check")


def plant(fault: Fault, copy: Path) -> None:
    """Put the fault into a copy of the project, and build the kernel again if it is there."""
    _apply(fault, copy)
    if fault.is_in_c:
        for kernel in copy.glob("spark_ordered_kafka/native/*.so"):
            kernel.unlink()
        built = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
        if not list(copy.glob("spark_ordered_kafka/native/*.so")):
            raise PlantingError(f"{fault.name}: the kernel is not built: {built.stderr}")


def _apply(fault: Fault, directory: Path, *options: str) -> None:
    # Below another repository git would leave out all files without a word, so it must not find one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CEILING_DIRECTORIES"] = str(directory.resolve().parent)
    command = ["git", "apply", *options, str(fault.patch)]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PlantingError(f"{fault.patch.name} does not fit the code any more: {done.stderr.strip()}")


def run_tests(copy: Path, tests: Sequence[str], limit: float = LIMIT) -> list[Line]:
    """Run tests in a copy of the project; what the witness says of each.

    Raises PlantingError where none was run, as for a name that does not exist.
    """
    notes = copy.parent / "notes"
    notes.unlink(missing_ok=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))
    }
    environment |= {"PYTHONPATH": str(copy), FILE: str(notes), "ORDERED_KAFKA_NATIVE": "require"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.planted.witness", "-p", "no:cacheprovider", "-q"]
    command += ["--durations=0", "--hypothesis-seed=0", f"--basetemp={copy.parent / 'tmp'}", *tests]
    said = copy.parent / "said"
    with said.open("w") as output:
        process = subprocess.Popen(command, cwd=copy, env=environment, stdout=output, stderr=output)
        try:
            process.wait(limit)
        except BaseException as error:
            # Whatever ends the wait: its servers must be taken down.
            _end(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    if not notes.exists():
        raise PlantingError(f"no test of {', '.join(tests)} was run:\n{said.read_text()}")
    return [Line(**json.loads(line)) for line in notes.read_text().splitlines()]


def _end(process: subprocess.Popen[bytes]) -> None:
    # As ctrl-C, upon which the tests take their servers down.
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def lines_of(lines: Sequence[Line], test: str) -> list[Line]:
    """Those of a node id; without a parameter, of all parameters."""
    return [line for line in lines if line.test == test or line.test.partition("[")[0] == test]


def try_without(faults: Sequence[Fault]) -> None:
    """Raises PlantingError unless all their tests pass without a fault."""
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
    with copy_of_the_project() as copy:
        lines = run_tests(copy, tests, limit=LIMIT * len(tests))
    for test in tests:
        found = lines_of(lines, test)
        if not found or not all(line.passed for line in found):
            said = "; ".join(f"{line.when} {line.outcome}: {line.text}" for line in found) or "it was not run"
            raise PlantingError(f"{test} does not pass without a fault: {said}")


def try_with(fault: Fault) -> Outcome:
    """Plant the fault and run its tests."""
    with copy_of_the_project() as copy:
        plant(fault, copy)
        lines = run_tests(copy, fault.tests)
    seconds, missed = {}, {}
    for test in fault.tests:
        found = lines_of(lines, test)
        finds = [line.seconds for line in found if line.finds(fault)]
        if finds:
            seconds[test] = finds[0]
        else:
            missed[test] = "; ".join(_shown(line) for line in found) or "was not run"
    return Outcome(fault, seconds, missed)


def _shown(line: Line) -> str:
    error = line.kinds[0] if line.kinds else ""
    return " ".join(f"{line.test} {line.when} {line.outcome} {error} {line.text}".split())[:500]
