"""A Spark query that copies a topic: ``python -m tests.nemesis.query HISTORY NAME SOURCE TARGET CHECKPOINT SERVERS [TRIGGER] [SETTINGS]``.

SERVERS is JSON: ``kafka.bootstrap.servers`` and ``controller.url``. TRIGGER is the time between two micro-batches. SETTINGS
is JSON: more of Spark's configuration.
May be killed and started again with the same CHECKPOINT.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from pyspark.errors import StreamingQueryException

from tests.nemesis.journal import Journal
from tests.servers import start_spark


def main(
    history: str,
    name: str,
    source: str,
    target: str,
    checkpoint: str,
    servers: str,
    trigger: str = "2 seconds",
    settings: str = "{}",
) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal = Journal(Path(history), name)
    spark = start_spark(Path(checkpoint).parent, json.loads(settings))
    options = json.loads(servers)
    rows = (
        spark.readStream.format("ordered-kafka")
        .options(**options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100000")
        .load()
        .select("key", "value")
    )
    query = (
        rows.writeStream.format("ordered-kafka")
        .options(**options, topic=target, checkpointLocation=checkpoint)
        .trigger(processingTime=trigger)
        .start()
    )
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
