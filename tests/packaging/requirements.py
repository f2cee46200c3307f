"""What pyproject.toml says of dependencies, and the modules of what is installed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
NAME = "spark-ordered-kafka"


def required(*extras: str) -> dict[str, Requirement]:
    """The package's own requirements by distribution, with those of extras and of the extras that these include."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    found: dict[str, Requirement] = {}
    for requirement in map(Requirement, lines):
        if requirement.name == NAME:
            found |= required(*requirement.extras)
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found


def with_dependencies(distributions: Iterable[str]) -> set[str]:
    """Distributions, and all that these need in this environment."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in distributions]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            for line in metadata.requires(name) or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                    waiting.append(needed)
    return found


@cache
def distributions_of() -> dict[str, set[str]]:
    """Top-level modules of this environment, and the distributions that have them."""
    return {
        module: {canonicalize_name(name) for name in names}
        for module, names in metadata.packages_distributions().items()
    }
