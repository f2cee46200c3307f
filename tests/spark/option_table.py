"""Makes docs/options.md of the option objects: ``python -m tests.spark.option_table > docs/options.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from spark_ordered_kafka.kafka import java_names, java_security
from spark_ordered_kafka.spark import option_names

HEAD = """# Options

Of `format("ordered-kafka")`, in the order of Spark's own guide; names of options are case-insensitive. All that is wrong in
a map of options is said at once, when the query is planned. This page is made of the objects that parse the options:
`python -m tests.spark.option_table > docs/options.md`.
"""

KAFKA = """## `kafka.*`

Properties of Kafka's Java clients, as written for Spark's `kafka` format, and any property of librdkafka, which judges its own.
Of two names for one property librdkafka's wins. Spark's own settings of its Kafka connector (`spark.kafka.*`: caches,
delegation tokens) have no meaning here.
"""


def page() -> str:
    """docs/options.md."""
    options = [
        (
            f"`{option.name}`",
            " and ".join(option.sides),
            "Spark" if option.of_spark else "here",
            option.default or "see above",
            option.meaning,
        )
        for option in option_names.OPTIONS
    ]
    refused = [(f"`{name}`", reason) for name, reason in option_names.REFUSED.items()]
    parts = [
        HEAD,
        "## Of source and sink\n",
        _table(("option", "side", "known from", "default", "meaning"), options),
        "## Of Spark's format, and refused\n",
        _table(("option", "what to do instead"), refused),
        KAFKA,
        _table(("property", "what becomes of it", ""), sorted(_properties())),
    ]
    return "\n".join(parts)


def _properties() -> Iterable[tuple[str, str, str]]:
    for name in java_names.SAME:
        yield f"`{name}`", "honoured", java_names.NOTES.get(name, "")
    for name, to in java_names.RENAMED.items():
        yield f"`{name}`", "translated", f"`{to.name}`" + (f"; {to.note}" if to.note else "")
    for name, to_what in java_security.MEANING.items():
        yield f"`{name}`", "translated", to_what
    for name, fixed in java_names.FIXED.items():
        values = " or ".join(f"`{value}`" for value in fixed.values)
        yield f"`{name}`", f"honoured as {values}", f"else refused: {fixed.reason}"
    for name, reason in java_names.REFUSED.items():
        yield f"`{name}`", "refused", reason


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
