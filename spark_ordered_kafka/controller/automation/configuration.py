"""Reading keys of the controller's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from spark_ordered_kafka.errors import ConfigError, ConfigErrors


def dotted(attribute: str) -> str:
    """The name of a key by its field."""
    return attribute.replace("_", ".")


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a table and of those in it, each with its dotted name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def explained(prefix: str, error: ValidationError, what: str, known: Iterable[str]) -> ConfigError:
    """Pydantic's errors as ConfigErrors; ``prefix`` makes the full name of a key, ``what`` has the ``known`` ones."""
    found = []
    for one in error.errors(include_url=False):
        name = prefix + str(one["loc"][0])
        if one["type"] == "extra_forbidden":
            found.append(
                ConfigError(f"unknown key {name}", one["input"], f"{what} has {', '.join(sorted(known))}")
            )
        else:
            found.append(ConfigError(name, one["input"], one["msg"]))
    return found[0] if len(found) == 1 else ConfigErrors(tuple(found))
