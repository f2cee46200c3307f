"""A producer of more topics than it may have open files for, and one whose topics rest."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import instances
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import values
from tests.servers import TIMEOUT, await_true
from tests.streams import conf, create

TOPICS, FILES = 20, 100
# Without the places each topic's instance has eight files, and this many topics more than twice as many as there may be.
WRITER = f"""
import json, resource, sys
from spark_ordered_kafka import OrderedProducer
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
conf, topics = map(json.loads, sys.argv[1:])
with OrderedProducer(conf | {{"message.timeout.ms": 60_000}}) as producer:
    for number in range(3):
        for topic in topics:
            producer.produce(topic, str(number), "k")
        producer.flush()
print("all committed")
"""


def test_more_topics_than_files(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(TOPICS)]
    done = subprocess.run(
        [sys.executable, "-c", WRITER, json.dumps(conf(cluster)), json.dumps(topics)],
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("all committed\n", "")
    for topic in topics:
        assert values(cluster, topic) == [b"0", b"1", b"2"]


def test_an_instance_that_rests_is_given_up(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic's next record has a new one."""
    monkeypatch.setattr(instances, "MAX_IDLE", 0.5)
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(2):
            producer.produce(topic_name, str(number), "k")
            producer.flush(TIMEOUT)
            assert instances_of(topic_name) == 1
            await_true(lambda: instances_of(topic_name) == 0, "the instance is given up")
    assert values(cluster, topic_name) == [b"0", b"1"]


def instances_of(topic: str) -> int:
    """Those of this process."""
    found = (one for one in gc.get_objects() if isinstance(one, TransactionalProducer))
    return sum(topic in one.transactional_id for one in found)
