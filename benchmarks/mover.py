"""A worker process of the sink whose tasks come and go; run as a program: ``mover.py BOOTSTRAP CONTROLLER TOPIC WRITER``.

For each line ``TASK SEQUENCE`` of its input it writes a transaction of 250 records, and prints the milliseconds that took.
"""

from __future__ import annotations

import sys
import time

ROWS = 250


def main(bootstrap: str, controller: str, topic: str, writer: str) -> None:
    """Until the input ends."""
    # What every worker of Spark has imported.
    import pyarrow as pa
    import pyspark.worker  # noqa: F401

    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"key-%d" % number for number in range(ROWS)], pa.binary()),
            "value": pa.array([b"%0100d" % number for number in range(ROWS)], pa.binary()),
        }
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        task, sequence = map(int, line.split())
        begun = time.perf_counter()
        # With the imports, as unpickling has them in a worker of Spark.
        from spark_ordered_kafka.config import Connection
        from spark_ordered_kafka.kafka.replay import Claim
        from spark_ordered_kafka.spark.options import SinkOptions
        from spark_ordered_kafka.spark.sink import write_task

        options = SinkOptions(Connection({"bootstrap.servers": bootstrap}, controller), topic)
        write_task(options, Claim(writer, sequence), task, iter([batch]))
        sys.stdout.write(f"{1000 * (time.perf_counter() - begun)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
