"""The planted faults: what each breaks, and which tests must find it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
KERNEL_SOURCES = "spark_ordered_kafka/native/src/"


@dataclass(frozen=True)
class Fault:
    """``breaks`` says what the patch does, ``promise`` which promise that breaks.

    ``tests``: node ids of pytest; each of them must find it. ``says``: a regular expression that the error of each has in it,
    so that a test that fails for another reason counts for nothing.
    """

    name: str
    breaks: str
    promise: str
    tests: tuple[str, ...]
    says: str

    @property
    def patch(self) -> Path:
        """What plants it."""
        return HERE / "faults" / f"{self.name}.patch"

    @property
    def is_in_c(self) -> bool:
        """Whether the kernel has to be built with it."""
        return f"+++ b/{KERNEL_SOURCES}" in self.patch.read_text()


def faults() -> dict[str, Fault]:
    """All of them, by name."""
    rows = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
    found = [Fault(**{**row, "tests": tuple(row["tests"])}) for row in rows]
    for fault in found:
        re.compile(fault.says)
    return {fault.name: fault for fault in found}
