"""Clients of a process that is forked, or ends, while they are open."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import instances_in_memory
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import NumberedWriter, change, conf, create, raw_records

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_forked_child_is_told_to_make_clients_of_its_own(cluster: LocalCluster) -> None:
    topic = create(cluster, unique_name("fork"), 2)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.integration.forking"),
            *(cluster.bootstrap_servers, cluster.controller_url, topic),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *said, values = done.stdout.splitlines()
    theirs = "this {} belongs to process PARENT, which has forked this one: make a new one here"
    producers, consumers = theirs.format("OrderedProducer"), theirs.format("OrderedConsumer")
    assert said == [producers, producers, producers, consumers, consumers, "None", "True"]
    assert values == "[b'child', b'open', b'parent', b'parent again']"


@pytest.mark.long
@pytest.mark.parametrize("interval", [pytest.param(0, marks=pytest.mark.long), 60_000])
@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError",
        "producer.close()",
        *(pytest.param(end, marks=pytest.mark.long) for end in ("", "producer.flush()", "producer.abort()")),
    ],
)
def test_what_a_process_leaves_uncommitted_is_said(cluster: LocalCluster, end: str, interval: int) -> None:
    topic = create(cluster, unique_name("left"), 1)
    options = conf(cluster, commit_interval_ms=interval)
    program = f"""
from spark_ordered_kafka import OrderedProducer
producer = OrderedProducer({options})
for number in range(70):
    producer.produce({topic!r}, str(number), "k")
{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=4 * TIMEOUT, check=False
    )
    warning = "an open OrderedProducer ends with 70 uncommitted records: call flush() or close()"
    is_left = end in ("", "raise ValueError")
    assert (warning in done.stderr) is is_left, done.stderr
    assert is_left or done.stderr == ""
    if not is_left:
        await_stable(cluster, topic)
    assert len(list(raw_records(cluster, topic, 1))) == (
        70 if end in ("producer.close()", "producer.flush()") else 0
    )


def test_what_is_closed_is_gone_before_the_garbage_collector_comes(cluster: LocalCluster) -> None:
    """Else its threads and sockets would stay for as long, and a forked child would end them, which kills it."""
    topic = create(cluster, unique_name("closed"), 2)
    program = f"""
import gc
import psutil
from spark_ordered_kafka import OrderedConsumer, OrderedProducer

def use():
    with OrderedProducer({conf(cluster)}) as producer:
        producer.produce({topic!r}, "value", "key")
        producer.list_topics({topic!r})
    with OrderedProducer({conf(cluster, commit_interval_ms=0)}) as transactional:
        transactional.produce({topic!r}, "dropped", "key")
        transactional.abort()
    with OrderedConsumer({conf(cluster, group_id=topic, auto_offset_reset="earliest")}) as consumer:
        consumer.subscribe([{topic!r}])
        while not consumer.consume(1, 1.0):
            pass
        consumer.list_topics({topic!r})
        consumer.commit()
    return producer, transactional, consumer

use()
gc.collect()
gc.disable()
before = psutil.Process().num_threads()
kept = use()
print(before, psutil.Process().num_threads())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=4 * TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split()
    assert after == before


@pytest.mark.long
def test_fenced_instances_are_gone_before_the_garbage_collector_comes(
    cluster: LocalCluster, topic_name: str
) -> None:
    """Each has four threads and its connections, and a topic under load changes many times."""
    create(cluster, topic_name, 1)
    changed = threading.Event()

    def write() -> None:
        number = 0
        while not changed.is_set():
            for _ in range(100):
                producer.produce(topic_name, str(number), str(number % 10))
                number += 1
            # A change comes upon idle instances, one amid a transaction, or one that waits for a layout.
            producer.flush(TIMEOUT if number % 300 else 0)

    gc.collect()
    gc.disable()
    try:
        with OrderedProducer(conf(cluster)) as producer:
            writing = threading.Thread(target=write, name="writer")
            writing.start()
            try:
                for count in (2, 1) * 4:
                    change(cluster, topic_name, count)
            finally:
                changed.set()
                writing.join(2 * TIMEOUT)
            assert producer.flush() == 0
            assert sum(topic_name in one.transactional_id for one in instances_in_memory()) <= 2
    finally:
        gc.enable()


@pytest.mark.long
def test_kept_log_records_keep_no_consumer(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit of a consumer that its group has removed fails and is logged; pytest keeps the record (D-469)."""
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name).write(3)
    await_stable(cluster, topic_name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def members() -> int:
        (found,) = admin.describe_consumer_groups([topic_name]).values()
        return len(found.result(TIMEOUT).members)

    def use_consumer() -> weakref.ref[OrderedConsumer]:
        times = {"max_poll_interval_ms": 3000, "session_timeout_ms": 3000, "auto_commit_interval_ms": 100}
        consumer_conf = conf(cluster, group_id=topic_name, auto_offset_reset="earliest", **times)
        with OrderedConsumer(consumer_conf) as consumer:
            consumer.subscribe([topic_name])
            await_true(lambda: consumer.consume(1, 0.5) != [], "a record")
            await_true(lambda: members() == 0, "the group has removed the consumer")
            consumer.consume(1, 0.2)
            assert "committing offsets" in caplog.text
        return weakref.ref(consumer)

    closed = use_consumer()
    gc.collect()
    assert closed() is None
