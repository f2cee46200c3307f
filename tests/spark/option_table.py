"""Makes docs/options.md of the option objects: ``python -m tests.spark.option_table > docs/options.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from spark_ordered_kafka.client import option_names as plain
from spark_ordered_kafka.client.options import CLASSIC
from spark_ordered_kafka.kafka import java_names, java_security
from spark_ordered_kafka.spark import option_names

HEAD = """# Options

Of `format("ordered-kafka")`, in the order of Spark's own guide, where names of options are case-insensitive, and of the plain
clients: [below](#ordered-producer-and-ordered-consumer). All that is wrong in a map of options is said at once, when the query
is planned or the client is made. This page is made of the objects that parse the options:
`python -m tests.spark.option_table > docs/options.md`.
"""

KAFKA = """## `kafka.*`

Properties of Kafka's Java clients, as written for Spark's `kafka` format, and any property of librdkafka, which judges its own.
Of two names for one property librdkafka's wins. Spark's own settings of its Kafka connector (`spark.kafka.*`: caches,
delegation tokens) have no meaning here.
"""


PLAIN = """## Ordered producer and ordered consumer

`OrderedProducer` and `OrderedConsumer` take confluent-kafka's configuration, as a dict, as keyword arguments or both, and the
options `controller.*` of above. The table of `kafka.*` holds for them, too, without that prefix, but for the properties in the
next two tables. Of two names for one property librdkafka's wins, and librdkafka judges its own.
"""

PLAIN_OPTIONS = (
    (
        "`commit.interval.ms`",
        "producer",
        "`100`",
        "after so long a transaction is committed; `0`: only by `commit()`",
    ),
    ("`commit.max.records`", "producer", "`100000`", "after so many records a transaction is committed"),
    ("`queue.buffering.max.messages`", "producer", "`100000`", "records that wait for their commit, at most"),
    ("`queue.buffering.max.kbytes`, `buffer.memory`", "producer", "`1048576`", "what they take, at most"),
    (
        "`message.timeout.ms`, `delivery.timeout.ms`",
        "producer",
        "`300000`",
        "how long a record may wait for its commit",
    ),
    (
        "`acks`, `request.required.acks`, `enable.idempotence`",
        "producer",
        "`all`, `all`, `true`",
        "no other value: writers are transactional",
    ),
    ("`group.id`", "consumer", "required", "the consumer group"),
    (
        "`auto.offset.reset`",
        "consumer",
        "`latest`",
        "`earliest`, `latest`, `error` (Java: `none`): where a new group begins; `error`: also an error for records that are gone",
    ),
    ("`enable.auto.commit`, `auto.commit.interval.ms`", "consumer", "`true`, `5000`", "as in librdkafka"),
    (
        "`enable.auto.offset.store`",
        "consumer",
        "`true`",
        "`false`: only what `store_offsets()` says is processed",
    ),
    ("`enable.partition.eof`", "consumer", "`false`", "as in librdkafka"),
    ("`isolation.level`", "consumer", "`read_committed`", "or `read_uncommitted`"),
    ("`heartbeat.interval.ms`", "consumer", "`1000`", "as in librdkafka; a rebalance is learned of by it"),
    ("`fetch.wait.max.ms`, `fetch.max.wait.ms`", "consumer", "`100`", "as in librdkafka"),
    (
        "`topic.metadata.refresh.interval.ms`",
        "consumer",
        "`10000`",
        "also how often topics are looked up that match a pattern; `-1`: never. `metadata.max.age.ms` is three times this, and 35 minutes at most (D-316)",
    ),
    ("`metadata.recovery.strategy`", "consumer", "`rebootstrap`", "as in librdkafka"),
    ("`reconnect.backoff.ms`", "consumer", "`100`", "as in librdkafka"),
    ("`partition.assignment.strategy`", "consumer", "`roundrobin`", "no other value keeps the order"),
    ("`group.protocol`", "consumer", "`classic`", f"`consumer` is refused: {CLASSIC}"),
    ("`error_cb`, `throttle_cb`", "both", "none", "called in `poll()`, `consume()` and `flush()`"),
    (
        "`stats_cb`, `statistics.interval.ms`, `on_commit`",
        "consumer",
        "none",
        "called in `poll()` and `consume()`",
    ),
    ("`oauth_cb`, `logger`", "both", "none", "given to every client inside"),
)

MODES = """## Save modes, output modes and triggers

What Spark refuses, it refuses for every format that is written in Python, before this one is asked.

| | what happens | Spark's `kafka` format |
| --- | --- | --- |
| `mode("append")` | appends | the same |
| no mode, `mode("errorifexists")` | refused by Spark: write `.mode("append")` | appends |
| `mode("overwrite")` | refused: write `.mode("append")` | refused |
| `mode("ignore")` | refused by Spark: write `.mode("append")` | refused |
| `outputMode("append")` | as in Spark | the same |
| `outputMode("complete")` | refused; `outputMode("append")` with a watermark, or `foreachBatch` with a batch write | appends the whole result with each micro-batch |
| `outputMode("update")` | refused by Spark (`ordered-kafka does not support Update mode`): without an aggregation write `outputMode("append")`, which is the same there; with one, `foreachBatch` with a batch write | appends what has changed |
| `foreachBatch` | `batch.write.format("ordered-kafka").mode("append")`; with the option `writer` exactly once | at least once |
| triggers `processingTime`, `availableNow`, `once` | as in Spark; `once` reads all there is, `maxOffsetsPerTrigger` or not | the same |
| trigger `continuous` | a read is refused by Spark. A write of another source's rows is not: it runs and writes nothing, and the driver's log says so. Use `processingTime` | supported |
| trigger `realTime` | refused by Spark | supported |
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
        MODES,
        KAFKA,
        _table(("property", "what becomes of it", ""), sorted(_properties())),
        PLAIN,
        _table(("option", "client", "default", "meaning"), PLAIN_OPTIONS),
        "Refused, or as librdkafka has it instead of what the table of `kafka.*` says:\n",
        _table(("property", "client", "what to write instead"), sorted(_differences())),
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


def _differences() -> Iterable[tuple[str, str, str]]:
    producer, consumer = plain.PRODUCER.refused, plain.CONSUMER.refused
    for name in producer.keys() | consumer.keys():
        client = (
            "both"
            if name in producer and name in consumer
            else "producer"
            if name in producer
            else "consumer"
        )
        reason = producer.get(name) or consumer[name]
        if java_names.REFUSED.get(name, "").replace(" kafka.", " ") != reason:
            yield f"`{name}`", client, f"refused: {reason}"
    described = " ".join(names for names, *_ in PLAIN_OPTIONS)
    for name in plain.PASSED - producer.keys() - consumer.keys():
        if f"`{name}`" not in described:
            yield f"`{name}`", "both", "as in librdkafka"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
