"""A writer, a group that copies and a query, all of which go on while an operator works on the servers."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import Load, check_numbered
from tests.integration.test_broker_kills import await_whole, create_replicated
from tests.integration.test_ordered_pipeline import Copier
from tests.queries import await_stable, everything
from tests.streams import FORMAT, change, conf, options


class UnderLoad:
    """Begins at once, on a cluster of three brokers; :meth:`finish` ends it, and judges all three topics."""

    def __init__(
        self, stack: ExitStack, local: LocalCluster, spark: SparkSession, name: str, checkpoint: Path
    ) -> None:
        self._local = local
        self.topics = self.source, self.copy, queried = [
            f"{name}-{part}" for part in ("source", "copy", "queried")
        ]
        self._counts = cycle([4, 3, 6, 2, 5, 8, 3, 4, 7, 2])
        for topic in self.topics:
            create_replicated(local, topic, 2)
        rows = spark.readStream.format(FORMAT).options(**everything(local, self.source)).load()
        copied = rows.select("key", "value").writeStream.format(FORMAT)
        with_place = copied.options(**options(local, topic=queried)).option(
            "checkpointLocation", str(checkpoint)
        )
        self._query = with_place.start()
        stack.callback(self._query.stop)
        self._copier = stack.enter_context(Copier(local, self.source, self.copy))
        self._writing = stack.enter_context(ExitStack())
        producer = self._writing.enter_context(OrderedProducer(conf(local, commit_interval_ms=50)))
        self._load = self._writing.enter_context(Load(producer, self.source, pause=0.02))

    def await_whole(self) -> None:
        """Wait until all replicas are in sync: the next server may be stopped."""
        for topic in self.topics:
            await_whole(self._local, topic)

    def change_all(self) -> None:
        """Another number of partitions for all topics, once their replicas are in sync; all goes on after that."""
        count = next(self._counts)
        for topic in self.topics:
            await_whole(self._local, topic)
            change(self._local, topic, count)
        self._copier.await_more()
        self._load.await_round()
        assert self._query.exception() is None

    def finish(self) -> None:
        """End the writer; what it has written is in all topics, once and in order."""
        self._writing.close()
        self._copier.await_copied(self._load.produced)
        await_stable(self._local, self.source)
        self._query.processAllAvailable()
        for topic in self.topics:
            check_numbered(self._local, topic, self._load.produced)
