"""Records of the plain producer: their parts, their reports, and which are refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import Reports, check_numbered, manual, produce, values, written
from tests.streams import change, conf, create


def test_reports_come_after_the_commit_with_exact_offsets(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 3)
    reports = Reports()
    with manual(cluster) as producer:
        for number in range(6_000):
            producer.produce(topic_name, str(number), f"k{number % 50}", on_delivery=reports)
        assert producer.poll(0.3) == 0
        assert len(producer) == 6_000
        change(cluster, topic_name, 2 + 3)
        assert producer.flush() == 0
        assert len(reports.messages) == 6_000
        producer.produce(topic_name, "6000", "k0", callback=reports)
        producer.commit()
    assert set(reports.errors) == {None}
    records = {message.value(): message for message in written(cluster, topic_name)}
    assert len(records) == 6_001
    last = Counter[int | None]()
    for report in reports.messages:
        record = records[report.value()]
        assert (report.topic(), report.partition(), report.offset()) == (
            topic_name,
            record.partition(),
            record.offset(),
        )
        assert report.key() == record.key()
        offset = report.offset()
        assert offset is not None
        assert offset >= last[report.partition()]
        last[report.partition()] = offset
    check_numbered_values = [int(message.value() or b"") for message in reports.messages]
    assert sorted(check_numbered_values) == list(range(6_001))


def test_all_parts_of_a_record(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(topic_name, b"plain", b"k")
        producer.produce(topic_name, "значение", "ключ", headers={"a": b"x", "b": None})
        producer.produce(topic_name, key="", timestamp=1_000, headers=[("a", "1"), ("a", b"2")])
        producer.produce(topic_name, b"", timestamp=2_000)
        producer.produce(topic_name, b"last", b"k", -1, None, 0, None)
    found = [
        (message.key(), message.value(), message.headers(), message.timestamp()[1])
        for message in written(cluster, topic_name)
    ]
    assert [one[:3] for one in found] == [
        (b"k", b"plain", None),
        ("ключ".encode(), "значение".encode(), [("a", b"x"), ("b", None)]),
        (b"", None, [("a", b"1"), ("a", b"2")]),
        (None, b"", None),
        (b"k", b"last", None),
    ]
    assert [one[3] for one in found[2:4]] == [1_000, 2_000]
    assert abs(found[0][3] / 1000 - time.time()) < 3600


def test_a_timestamp_without_headers(cluster: LocalCluster, topic_name: str) -> None:
    """No record of the transaction has headers."""
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(topic_name, b"now", b"k")
        producer.produce(topic_name, b"then", b"k", timestamp=2_000)
    now, then = written(cluster, topic_name)
    assert (now.headers(), then.headers(), then.timestamp()[1]) == (None, None, 2_000)
    assert abs(now.timestamp()[1] / 1000 - time.time()) < 3600


def test_null_keys_take_turns(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 4)
    # In one transaction: each of the two ids that take turns counts by itself.
    with manual(cluster) as producer:
        for number in range(100):
            producer.produce(topic_name, str(number))
    assert Counter(message.partition() for message in written(cluster, topic_name)) == dict.fromkeys(
        range(4), 25
    )


def test_refused_at_once(cluster: LocalCluster, topic_name: str, make_topic: Callable[..., str]) -> None:
    create(cluster, topic_name, 2)
    with OrderedProducer(conf(cluster, message_max_bytes=2_000)) as producer:
        for arguments, hint in (
            ({"partition": 1}, "partition has the value 1: the topic's layout decides"),
            ({"partition": 0}, "partition has the value 0: the topic's layout decides"),
            ({"key": 5}, "key has the value 5: bytes, str or None, not int"),
            ({"value": b"x" * 1_954, "key": b"k" * 11}, "1965 bytes.*at most 1964 bytes.*message.max.bytes"),
            ({"headers": {"h": b"x" * 1_961}}, "1965 bytes.*at most 1964 bytes.*message.max.bytes"),
        ):
            with pytest.raises(ConfigError, match=hint):
                producer.produce(topic_name, **arguments)
        unmanaged = make_topic()
        for topic, hint in ((unmanaged, "adopt it"), (f"{topic_name}-none", "does not exist")):
            with pytest.raises(RequestError, match=rf"'{topic}'.*{hint}") as refused:
                producer.produce(topic, b"v")
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(producer) == 0
    assert values(cluster, topic_name) == []


def test_what_is_accepted_at_the_limit_is_written(cluster: LocalCluster, topic_name: str) -> None:
    """What librdkafka refused of it ended the topic's transactions, with all other records."""
    create(cluster, topic_name, 2)
    sizes: list[dict[str, Any]] = [
        {"value": b"x" * 1_964},
        {"value": b"x" * 1_954, "key": "k" * 10},
        {"headers": {"h": b"x" * 1_960}},
        {"value": b"x" * 800, "headers": [("ü" * 20, "ü" * 30), ("none", None), ("long", b"x" * 1_049)]},
    ]
    with manual(cluster, message_max_bytes=2_000) as producer:
        for record in sizes:
            producer.produce(topic_name, **record)
            with pytest.raises(ConfigError, match=r"1965 bytes.*at most 1964 bytes.*message\.max\.bytes"):
                producer.produce(topic_name, **{**record, "value": record.get("value", b"") + b"x"})
    assert len(values(cluster, topic_name)) == len(sizes)


def test_a_full_queue(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    with manual(cluster, queue_buffering_max_messages=10) as producer:
        for number in range(10):
            producer.produce(topic_name, str(number), "k")
        with pytest.raises(BufferError, match=r"10 records.*queue\.buffering\.max\.messages 10.*call commit"):
            producer.produce(topic_name, "10", "k")
        producer.commit()
        producer.produce(topic_name, "10", "k")
        assert len(producer) == 1
    with manual(cluster, queue_buffering_max_kbytes=1) as producer:
        producer.produce(topic_name, b"11", b"k", headers={"h": b"x" * 2_000})
        with pytest.raises(BufferError, match=r"queue\.buffering\.max\.kbytes 1"):
            producer.produce(topic_name, b"12", b"k")
    # Callers who wait for room do not wait for the interval.
    hurried = OrderedProducer(conf(cluster, commit_interval_ms=3_600_000, queue_buffering_max_messages=10))
    with hurried as producer:
        for number in range(12, 100):
            produce(producer, topic_name, str(number), "k")
    check_numbered(cluster, topic_name, 100)


def test_errors_of_callbacks_are_the_callers(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    reports = Reports()

    def fail(error: KafkaError | None, message: Message) -> None:
        raise LookupError(str(message.value()))

    with OrderedProducer(conf(cluster)) as producer:
        for number in range(4):
            producer.produce(topic_name, str(number), on_delivery=fail if number == 1 else reports)
        with pytest.raises(LookupError, match="b'1'"):
            producer.flush()
        assert producer.flush() == 0
    assert [message.value() for message in reports.messages] == [b"0", b"2", b"3"]


def test_batches_that_the_topic_refuses_need_a_smaller_size(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1, **{"max.message.bytes": "2000"})
    with manual(cluster, compression_type="none") as producer:
        for number in range(100):
            producer.produce(topic_name, b"%100d" % number)
        with pytest.raises(RequestError, match=r"set batch\.size to that") as refused:
            producer.commit()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with manual(cluster, compression_type="none", batch_size=2000) as producer:
        for number in range(100):
            producer.produce(topic_name, b"%100d" % number)
    assert values(cluster, topic_name) == [b"%100d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("config", "record", "advice"),
    [
        ({"cleanup.policy": "compact"}, {"key": None}, "takes no record without a key"),
        (
            {"message.timestamp.before.max.ms": "1000"},
            {"key": "k", "timestamp": 1},
            r"message\.timestamp\.before\.max\.ms",
        ),
    ],
)
def test_a_refused_record_says_which_setting_of_the_topic_refuses_it(
    cluster: LocalCluster, topic_name: str, config: dict[str, str], record: dict[str, Any], advice: str
) -> None:
    create(cluster, topic_name, 1, **config)
    with manual(cluster) as producer:
        producer.produce(topic_name, "refused", **record)
        with pytest.raises(RequestError, match=advice):
            producer.commit()
    with manual(cluster) as producer:
        producer.produce(topic_name, "taken", key="k")
    assert values(cluster, topic_name) == [b"taken"]


def test_a_record_that_the_topic_refuses(cluster: LocalCluster, topic_name: str) -> None:
    bad = create(cluster, f"{topic_name}-bad", 1, **{"max.message.bytes": "2000"})
    good = create(cluster, f"{topic_name}-good", 1)
    reports = Reports()
    producer = manual(cluster, compression_type="none")
    producer.produce(good, "good", on_delivery=reports)
    producer.produce(bad, "small", on_delivery=reports)
    producer.produce(bad, b"x" * 10_000, on_delivery=reports)
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.commit()
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.produce(bad, "later")
    producer.produce(good, "later")
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.flush()
    producer.close()
    outcome = {
        message.value(): None if error is None else error.code()
        for error, message in zip(reports.errors, reports.messages, strict=True)
    }
    assert outcome == {
        b"good": None,
        b"small": KafkaError.MSG_SIZE_TOO_LARGE,
        b"x" * 10_000: KafkaError.MSG_SIZE_TOO_LARGE,
    }
    assert values(cluster, good) == [b"good", b"later"]
    assert values(cluster, bad) == []


def test_a_refused_record_before_many_others(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1, **{"max.message.bytes": "2000"})
    small = {"compression_type": "none", "batch_size": 2_000}
    reports = Reports()

    def write() -> None:
        producer.produce(topic_name, b"x" * 10_000, on_delivery=reports)
        for number in range(90_000):
            producer.produce(topic_name, b"%d" % number)
        producer.commit()

    # The refusal comes while the others are still taken, so that produce() may tell it.
    with (
        manual(cluster, **small, message_timeout_ms=5_000) as producer,
        pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"),
    ):
        write()
    assert [error and error.code() for error in reports.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert values(cluster, topic_name) == []
