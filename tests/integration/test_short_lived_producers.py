"""Producers that live for some records only, one after another in each of several threads, through partition changes."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import check_numbered
from tests.seeds import fresh_seeds
from tests.streams import change, conf, create

_THREADS, _CHANGES, _KEYS = 8, 8, 3


class Workers:
    """Threads that make a producer, write the next numbers of their keys, end it in one of the ways, and do so again."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self.stop = threading.Event()

    def run(self, worker: int, seed: int) -> int:
        """Until :attr:`stop` is set; how many records were written."""
        draw = random.Random(seed + worker)
        numbers = [0] * _KEYS
        while not self.stop.is_set():
            interval = draw.choice([0, 20, 5_000])
            producer = OrderedProducer(conf(self._cluster, commit_interval_ms=interval))
            for _ in range(draw.randint(0, 30)):
                key = draw.randrange(_KEYS)
                name = f"{worker}-{key}"
                producer.produce(self._topic, str(numbers[key]), name)
                numbers[key] += 1
            self._end(producer, draw.choice(["close", "flush and close", "flush and forget", "elsewhere"]))
        return sum(numbers)

    def _end(self, producer: OrderedProducer, way: str) -> None:
        if way == "elsewhere":
            closing = threading.Thread(target=producer.close)
            closing.start()
            closing.join()
            return
        if way != "close":
            assert producer.flush() == 0
        if way != "flush and forget":
            producer.close()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", fresh_seeds(__name__))
def test_producers_that_live_for_a_moment(cluster: LocalCluster, topic_name: str, seed: int) -> None:
    create(cluster, topic_name, 2)
    workers = Workers(cluster, topic_name)
    with ThreadPoolExecutor(_THREADS) as pool:
        running = [pool.submit(workers.run, worker, seed) for worker in range(_THREADS)]
        try:
            for count in islice(cycle([5, 3, 8, 2]), _CHANGES):
                change(cluster, topic_name, count)
        finally:
            workers.stop.set()
        written = sum(one.result() for one in running)
    check_numbered(cluster, topic_name, written)
