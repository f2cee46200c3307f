"""Records that are gone before they were read: retention, topics created again, unclean leader elections."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.checker import Report
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.errors import ConfigError, DataLossError, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.consumers import consumer_of, taken
from tests.integration.controllers import exists
from tests.integration.unclean import CONFIG, truncate
from tests.queries import Query, Rows, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, delete_records


def judged(rows: Rows, written: int) -> Report:
    report = verdict(rows, written)
    assert (report.out_of_order, report.duplicated) == (0, 0), report
    return report


def test_retention_overtakes_a_query(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    with Query(everything(cluster, topic_name)) as query:
        writer.write()
        await_stable(cluster, topic_name)
        rows = query.all_rows()
        change(cluster, topic_name, 2)
        writer.write(4)
        await_stable(cluster, topic_name)
        delete_records(cluster, topic_name, {0: 30})
        with pytest.raises(
            DataLossError, match=rf"{topic_name}-0: offsets 26 to 29 \(set failOnDataLoss to false"
        ):
            query.plan()
        checkpoint = query.checkpoint
    lenient = everything(cluster, topic_name, failOnDataLoss="false")
    with Query(lenient, checkpoint) as query:
        rows += query.all_rows()
    assert f"records are gone before they were read: {topic_name}-0: offsets 26 to 29" in caplog.text
    lost = judged(rows, writer.written).lost
    assert 0 < lost <= 4


def test_retention_overtakes_a_task(cluster: LocalCluster, topic_name: str) -> None:
    """The micro-batch is planned, and then its first offsets go."""
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write(2)
    await_stable(cluster, topic_name)
    for fail_on_data_loss in ("true", "false"):
        wanted = everything(cluster, topic_name, failOnDataLoss=fail_on_data_loss)
        with Query(wanted) as query:
            end = query.plan()
            start = query.positions(topic_name)
            delete_records(cluster, topic_name, {0: (start or [0])[0] + 7})
            if fail_on_data_loss == "true":
                with pytest.raises(
                    DataLossError, match=f"offsets 0 to 6 of {topic_name}-0 are gone: the log starts at 7"
                ):
                    query.read(end)
            else:
                assert judged(query.read(end), writer.written).lost == 14


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_retention_overtakes_the_first_micro_batch_before_it_is_replayed(
    cluster: LocalCluster, topic_name: str, fail_on_data_loss: str
) -> None:
    """Spark asks for its start again then, and gets a later one: the tasks are those of before nevertheless."""
    create(cluster, topic_name, 3)
    writer = NumberedWriter(cluster, topic_name, keys=30)
    writer.write(2)
    await_stable(cluster, topic_name)
    wanted = everything(cluster, topic_name, failOnDataLoss=fail_on_data_loss)
    with Query(wanted) as query:
        end = query.plan()
        before = query.ranges(end)
    end_of_first = json.loads(end)["topics"][topic_name]["positions"][0]
    delete_records(cluster, topic_name, {0: end_of_first, 1: 3})
    with Query(wanted) as again:
        assert again.positions(topic_name)[:2] == [end_of_first, 3]
        assert again.ranges(end) == before
        if fail_on_data_loss == "true":
            with pytest.raises(DataLossError, match=f"{topic_name}-0 are gone"):
                again.read(end)
        else:
            rows = again.read(end)
            assert judged(rows, writer.written).lost == writer.written - len(rows)
            assert {row["partition"] for row in rows} == {1, 2}


def test_a_topic_vanishes_before_the_first_micro_batch_is_replayed(
    cluster: LocalCluster, topic_name: str
) -> None:
    gone, kept = f"{topic_name}-a", f"{topic_name}-b"
    for name in (gone, kept):
        create(cluster, name, 1)
        writer = NumberedWriter(cluster, name, keys=5)
        writer.write()
        await_stable(cluster, name)
    wanted = everything(cluster, f"{gone},{kept}", failOnDataLoss="false")
    with Query(wanted) as query:
        end = query.plan()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([gone])[gone].result(TIMEOUT)
    await_true(lambda: not exists(cluster, gone), "the broker knows that it is gone")
    with Query(wanted) as again:
        with pytest.raises(RequestError, match=f"topic '{gone}' does not exist"):
            again.plan()
        rows = again.read(end)
        assert {row["topic"] for row in rows} == {kept}
        assert len(rows) == writer.written


def test_a_batch_read_starts_where_the_log_starts(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write(1)
    await_stable(cluster, topic_name)
    change(cluster, topic_name, 2)
    writer.write(1)
    await_stable(cluster, topic_name)
    delete_records(cluster, topic_name, {0: 10})
    (rows,) = batch_rows(everything(cluster, topic_name))
    assert judged(rows, writer.written).lost == 10
    # An offset that was right once.
    left = everything(cluster, topic_name) | {"startingOffsets": f'{{"{topic_name}":{{"0":5,"1":0}}}}'}
    with pytest.raises(ConfigError, match=f"{topic_name}-0: 5': the log holds the offsets 10 to"):
        batch_rows(left)
    (rows,) = batch_rows(left | {"failOnDataLoss": "false"})
    assert judged(rows, writer.written).lost == 10
    with Query(left | {"failOnDataLoss": "false"}) as query:
        # The first micro-batch fixes the start.
        assert judged(query.next_rows() + query.all_rows(), writer.written).lost == 10


def test_a_topic_that_was_created_again(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name, keys=5).write(3)
    await_stable(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as query:
        assert len(query.all_rows()) == 75
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics([topic_name])[topic_name].result(TIMEOUT)
        await_true(lambda: not exists(cluster, topic_name), "the broker knows that it is gone")
        create(cluster, topic_name, 2)
        writer = NumberedWriter(cluster, topic_name, keys=5)
        writer.write(1)
        await_stable(cluster, topic_name)
        with pytest.raises(DataLossError, match=f"topic '{topic_name}' was deleted and created again"):
            query.plan()
        checkpoint = query.checkpoint
    lenient = everything(cluster, topic_name, failOnDataLoss="false")
    with Query(lenient, checkpoint) as query:
        assert judged(query.all_rows(), writer.written).lost == 0
    assert "was deleted and created again" in caplog.text


@pytest.mark.long
def test_a_log_truncated_below_a_boundary(
    three_brokers: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tail of the first layout goes, with the records after it; what is written next takes their offsets."""
    with ControllerClient(three_brokers.controller_url) as controller:
        controller.create_topic(
            CreateTopicRequest(topic=topic_name, partitions=1, replication_factor=2, configs=CONFIG)
        )
    writer = NumberedWriter(three_brokers, topic_name, keys=5, step=2)
    writer.write(2)
    await_stable(three_brokers, topic_name)
    before = writer.written
    tail = NumberedWriter(three_brokers, topic_name, keys=5, step=2, first=100)

    strict = everything(three_brokers, topic_name)
    behind, ahead = Query(strict), Query(strict)
    with behind, ahead:
        rows_behind = behind.all_rows()
        rows_ahead = ahead.all_rows()

        def tail_and_change() -> None:
            nonlocal rows_ahead
            # A producer that was there before the broker stopped may look for its coordinators for half a minute.
            tail.write(2)
            await_stable(three_brokers, topic_name)
            change(three_brokers, topic_name, 2)
            tail.write(1)
            await_stable(three_brokers, topic_name)
            rows_ahead += ahead.all_rows()

        cut = truncate(three_brokers, topic_name, 0, alone=tail_and_change)
        end = cut.after.offset
        lost_at = rf"{topic_name}-0: offsets {end} to \d+ of leader epoch \d+"
        for query in (behind, ahead):
            with pytest.raises(DataLossError, match=lost_at):
                query.plan()
    with pytest.raises(DataLossError, match=lost_at):
        batch_rows(strict)
    later = NumberedWriter(three_brokers, topic_name, keys=5, step=2, first=1000)
    later.write(3)
    await_stable(three_brokers, topic_name)
    caplog.set_level(logging.WARNING)
    lenient = strict | {"failOnDataLoss": "false"}
    with Query(lenient, behind.checkpoint) as query:
        rows_behind += query.all_rows()
    with Query(lenient, ahead.checkpoint) as query:
        rows_ahead += query.all_rows()
        assert query.plan() == query.checkpoint
    assert "records were lost in a leader election" in caplog.text
    assert before < len(rows_behind) < before + tail.written + later.written
    for rows in (rows_behind, rows_ahead, *batch_rows(lenient)):
        judged(rows, 0)
        assert len([row for row in rows if int(row["value"].split(b":")[1]) >= 1000]) == later.written


class Gathering(Consumer):
    """Hands out in one batch that a position is out of range, and the records that ``write`` writes then."""

    write: Callable[[], None]
    is_met = False

    def poll(self, timeout: float = -1) -> Message | None:
        message = super().poll(timeout)
        error = None if message is None else message.error()
        self.is_met = error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        if not self.is_met:
            return []
        Gathering.write()
        found: list[Message] = []
        while all(message.error() is not None for message in found):
            found += super().consume(num_messages, 0.1)
        return found


def test_retention_overtakes_one_partition_of_a_consumer(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    behind = sum(bucket(key_hash("murmur3", f"k{key}".encode()), 2, 2) == 0 for key in range(5))
    assert 0 < behind < 5
    writer.write()
    with consumer_of(cluster, topic_name, topic_name) as consumer:
        rows = taken(consumer, writer.written)
    writer.write()
    await_stable(cluster, topic_name)
    delete_records(cluster, topic_name, {0: OFFSET_END})
    lost = behind * writer.step
    monkeypatch.setattr(Gathering, "write", writer.write, raising=False)
    monkeypatch.setattr("spark_ordered_kafka.client.consumer.Consumer", Gathering)
    with consumer_of(cluster, topic_name, topic_name) as consumer:
        rows += taken(consumer, 50 - lost)
        assert consumer.consume(1, 1.0) == []
    assert judged(rows, writer.written).lost == lost
