"""``jobs/balance_service.py``, killed between storing in the database and committing to Kafka, once it has committed something."""

from __future__ import annotations

import os
import runpy
import signal
from pathlib import Path

from confluent_kafka import TopicPartition

from spark_ordered_kafka.client.consumer import OrderedConsumer

SERVICE = Path(__file__).parents[2] / "jobs" / "balance_service.py"


def main() -> None:
    """Run it with the arguments of the service."""
    commit = OrderedConsumer.commit
    done: set[tuple[int, int]] = set()

    def dying(self: OrderedConsumer, *, offsets: list[TopicPartition]) -> object:
        stored = {(one.partition, one.offset) for one in offsets}
        if done and not stored <= done:
            os.kill(os.getpid(), signal.SIGKILL)
        done.update(stored)
        return commit(self, offsets=offsets)

    OrderedConsumer.commit = dying  # type: ignore[assignment, method-assign]
    runpy.run_path(str(SERVICE), run_name="__main__")


if __name__ == "__main__":
    main()
