"""A Spark query that copies a topic: ``python -m tests.nemesis.query HISTORY NAME SOURCE TARGET CHECKPOINT SERVERS [TRIGGER] [SETTINGS] [WAY]``.

SERVERS is JSON: options of the connections, as ``kafka.bootstrap.servers`` and ``controller.url``. TRIGGER is the time
between two micro-batches. SETTINGS is JSON: more of Spark's configuration. WAY is one of ``tests.nemesis.spark.Way``.
May be killed and started again with the same CHECKPOINT.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from tests.nemesis.journal import Journal
from tests.nemesis.spark import Way
from tests.servers import start_spark

_TASKS = 3


def write(batch: DataFrame, _: int, *, options: dict[str, str], topic: str) -> None:
    """Exactly once, by the option ``writer``; the rows of a key are in order again after the shuffle."""
    ordered = batch.repartition(_TASKS, "key").sortWithinPartitions("key", "layout_epoch", "offset")
    writer = ordered.select("key", "value").write.format("ordered-kafka")
    writer.options(**options, topic=topic, writer="query").mode("append").save()


def clear_unbegun(checkpoint: Path) -> None:
    """Delete what a full disk left of the first micro-batch's plan, as Spark says: it refuses such a checkpoint."""
    offsets = checkpoint / "offsets"
    if offsets.exists() and not any(one.name.isdecimal() for one in offsets.iterdir()):
        shutil.rmtree(offsets)


def main(
    history: str,
    name: str,
    source: str,
    target: str,
    checkpoint: str,
    servers: str,
    trigger: str = "2 seconds",
    settings: str = "{}",
    way: str = Way.STREAM.value,
) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal = Journal(Path(history), name)
    clear_unbegun(Path(checkpoint))
    spark = start_spark(Path(checkpoint).parent, json.loads(settings))
    options = json.loads(servers)
    rows = (
        spark.readStream.format("ordered-kafka")
        .options(**options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100000")
        .load()
    )
    if Way(way) is Way.BATCHES:
        writer = rows.writeStream.foreachBatch(partial(write, options=options, topic=target))
    else:
        writer = rows.select("key", "value").writeStream.format("ordered-kafka")
        writer = writer.options(**options, topic=target)
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime=trigger).start()
    journal.note("started")
    try:
        while not stop.is_set():
            if query.awaitTermination(1):
                break
        query.stop()
    except StreamingQueryException as error:
        journal.note("failed", error=str(error)[-3000:])
        return 1
    spark.stop()
    journal.note("goodbye")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
