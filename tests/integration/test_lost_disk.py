"""The disk of a broker is lost, and with it the tail of a removed partition, which will never be written again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration.test_dead_broker import DEAD, Shrunk
from tests.queries import Query, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, await_true
from tests.streams import options


def lose_disk(cluster: LocalCluster, topic: str, partition: int) -> None:
    """The broker comes back without the partition's log, and leads it."""
    (broker,) = (one for one in cluster.description()["brokers"] if one["id"] == DEAD)
    cluster.kill(f"broker-{DEAD}")
    lost = [found for path in broker["log_dirs"] for found in Path(path).glob(f"{topic}-{partition}")]
    assert len(lost) == 1
    shutil.rmtree(lost[0])
    cluster.start(f"broker-{DEAD}")
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)
    try:
        await_true(
            lambda: admin.describe_topics([topic])[topic].partitions[partition].leader == DEAD, "a leader"
        )
        assert admin.log_ends(topic, [partition])[partition].offset == 0
    finally:
        admin.close()


@pytest.mark.long
def test_a_removed_partition_that_lost_its_tail(three_brokers: LocalCluster, topic_name: str) -> None:
    topic = Shrunk(three_brokers, topic_name)
    strict = everything(three_brokers, topic_name)
    lenient = strict | {"failOnDataLoss": "false"}
    with Query(strict) as ahead, Query(strict) as behind:
        rows = ahead.all_rows()
        assert len(rows) == topic.written
        held = len([row for row in rows if row["partition"] == 1])
        lose_disk(three_brokers, topic_name, 1)
        more = topic.write(200)
        await_stable(three_brokers, topic_name)
        assert len(ahead.all_rows()) == more, "who has read it all needs nothing of it"
        with pytest.raises(DataLossError, match=rf"{topic_name}-1: offsets 0 to \d+.*failOnDataLoss"):
            behind.plan()
        checkpoint = behind.checkpoint
    with pytest.raises(DataLossError, match=f"{topic_name}-1: offsets 0"):
        batch_rows(strict)
    for again in (checkpoint, None):
        with Query(lenient, again) as query:
            report = verdict(rows := query.all_rows())
        assert (len(rows), report.out_of_order, report.duplicated) == (topic.written - held + more, 0, 0)
    assert sum(map(len, batch_rows(lenient))) == topic.written - held + more
    with Query(options(three_brokers, subscribe=topic_name)) as query:
        assert query.next_rows() == []
        more = topic.write(300)
        assert len(query.all_rows()) == more
