"""``make fuzz MINUTES=…``: every property of this folder for an equal part of the time, one after another.

By atheris (libFuzzer, led by coverage of the Python code) where it is installed, else by random bytes. What fails is printed with
the example, and goes to hypothesis' database, so that the next run of pytest finds it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import pkgutil
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import tests.fuzz

_LONGEST = 4096


def properties() -> Iterator[tuple[str, str]]:
    """Modules, and the names of their properties."""
    for module in pkgutil.iter_modules(tests.fuzz.__path__, "tests.fuzz."):
        if module.name.rpartition(".")[2].startswith("test_"):
            found = vars(importlib.import_module(module.name))
            yield from ((module.name, name) for name, one in found.items() if hasattr(one, "hypothesis"))


def fuzz_one(module: str, name: str) -> Callable[[bytes], object]:
    """Runs one property with what it makes of some bytes."""
    run: Callable[[bytes], object] = getattr(importlib.import_module(module), name).hypothesis.fuzz_one_input
    return run


def by_atheris(module: str, name: str, seconds: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["spark_ordered_kafka"]):
        run = fuzz_one(module, name)
    atheris.Setup(
        [
            name,
            f"-max_total_time={seconds}",
            f"-max_len={_LONGEST}",
            "-len_control=0",
            "-timeout=30",
            "-rss_limit_mb=2048",
        ],
        run,
    )
    atheris.Fuzz()


def by_chance(module: str, name: str, seconds: float) -> int:
    """How many buffers were tried."""
    run, deadline, tried = fuzz_one(module, name), time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        run(random.randbytes(random.randrange(_LONGEST)))
        tried += 1
    return tried


def main() -> int:
    """The number of properties that failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--one", nargs=3, metavar=("MODULE", "NAME", "SECONDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    has_atheris = importlib.util.find_spec("atheris") is not None
    if given.one is not None:
        module, name, seconds = given.one
        if has_atheris:
            by_atheris(module, name, int(seconds))
        print(f"{by_chance(module, name, float(seconds))} tried")
        return 0
    # Not before: atheris takes what it imports itself.
    from spark_ordered_kafka.local.processes import ended_by_sigterm

    with ended_by_sigterm():
        return _fuzz_all(given.minutes, has_atheris)


def _fuzz_all(minutes: float, has_atheris: bool) -> int:
    found = list(properties())
    seconds = max(1, round(60 * minutes / len(found)))
    way = "atheris" if has_atheris else "random bytes: pip install atheris for fuzzing led by coverage"
    print(f"{len(found)} properties, {seconds} s each, by {way}", flush=True)
    failed = []
    for module, name in found:
        begun = time.monotonic()
        words = [sys.executable, "-m", "tests.fuzz.run", "--one", module, name, str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        lines = (done.stdout + done.stderr).strip().splitlines()
        result = "ok" if done.returncode == 0 else "FAILED"
        print(
            f"{result:6} {module}::{name}  {time.monotonic() - begun:.0f} s  {lines[-1] if lines else ''}",
            flush=True,
        )
        if done.returncode != 0:
            failed.append(name)
            print("\n".join(lines[-60:]), flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
