"""Options that hold a list with commas, as Kafka's own tools take it: empty items are left out."""

from __future__ import annotations

import re

from spark_ordered_kafka.errors import ConfigError

_INT32_MAX = 2**31 - 1


def parse_texts(value: str) -> list[str]:
    """The items, each once; none for an empty value."""
    return list(dict.fromkeys(item for item in value.split(",") if item))


def parse_ids(option: str, value: str) -> list[int]:
    """The items as ids of brokers or numbers of partitions; raises ConfigError for one that is none."""
    items = parse_texts(value)
    for item in items:
        if re.fullmatch("[0-9]{1,10}", item) is None or int(item) > _INT32_MAX:
            raise ConfigError(
                option, value, f"whole numbers with a comma between them are needed, not {item[:100]!r}"
            )
    return list(dict.fromkeys(map(int, items)))
