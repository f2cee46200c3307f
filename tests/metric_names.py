"""The metrics that docs/metrics.md has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", re.MULTILINE)
_SERIES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


class Described(NamedTuple):
    """A row of the page."""

    name: str
    kind: str
    labels: frozenset[str]
    meaning: str


def documented() -> set[Described]:
    """The rows of docs/metrics.md."""
    return {
        Described(name, kind, frozenset(re.findall(r"\w+", labels)), meaning)
        for name, kind, labels, meaning in _ROW.findall(PAGE.read_text())
    }


def series(row: Described) -> tuple[str, ...]:
    """The names of its series in PromQL."""
    return tuple(f"{row.name}{end}" for end in _SERIES.get(row.kind, ("",)))
