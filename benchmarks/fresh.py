"""What a fresh worker process takes for its first task; run as a program, which prints one JSON object.

Its argument is a file with a reader, a task of it and a writer, pickled as Spark pickles them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


def main(path: str) -> None:
    """Seconds of unpickling, which imports all that the objects need, and of reading the task the first and the second time."""
    # What every worker of Spark has imported.
    import pyarrow  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark import cloudpickle

    pickled = Path(path).read_bytes()
    found = []

    def load() -> None:
        found.extend(cloudpickle.loads(pickled))

    imports = _seconds(load)
    reader, task, _ = found

    def read() -> None:
        for _ in reader.read(task):
            pass

    sys.stdout.write(json.dumps({"imports": imports, "first": _seconds(read), "second": _seconds(read)}))


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(sys.argv[1])
