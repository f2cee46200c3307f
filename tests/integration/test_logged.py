"""What a controller logs, with real servers behind it: the audit log at every level, and names that hold anything."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.controller.monitoring.logs import configure_logging
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, exists, in_process
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

# No line feed, since no path matches it; terminals and many readers of logs take all of these for as much.
FORGED = '\r2026-01-01T00:00:00.000000Z [info     ] {"event":"answered"} \x1b[2J\x9b\u2028\u202e'


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the process logs as text at WARNING."""
    root, audit = logging.getLogger(), logging.getLogger("spark_ordered_kafka.audit")
    handlers, levels = root.handlers[:], (root.level, audit.level)
    audit.setLevel(logging.NOTSET)
    stream = io.StringIO()
    configure_logging("WARNING", "text", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    for logger, level in zip((root, audit), levels, strict=True):
        logger.setLevel(level)


def audited(log: io.StringIO) -> list[dict[str, object]]:
    decoder = json.JSONDecoder()
    lines = [line for line in log.getvalue().splitlines() if "[spark_ordered_kafka.audit]" in line]
    return [decoder.raw_decode(line[line.index("{") :])[0] for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("level", ["WARNING", "ERROR"])
def test_the_audit_log_is_there_at_every_level(
    kafka_cluster: LocalCluster, log: io.StringIO, level: str
) -> None:
    configure_logging(level, "text", log)
    with in_process(kafka_cluster) as controller:
        topic = controller.create(1)
        assert controller.alter(topic, 2).error_code == 0
    rows = [line for line in audited(log) if line.get("topics", [line.get("topic")]) == [topic]]
    assert [line["event"] for line in rows] == ["requested", "answered"] * 2 + ["ended"] or [
        line["event"] for line in rows
    ] == ["requested", "answered", "requested", "ended", "answered"]
    # And nothing else of that level.
    assert "[info" not in "".join(line for line in log.getvalue().splitlines() if ".audit]" not in line)


def test_names_end_no_line_of_the_log(
    kafka_cluster: LocalCluster, controller: InProcess, log: io.StringIO
) -> None:
    configure_logging("DEBUG", "text", log)
    topic, group = controller.create(1), unique_name("group") + FORGED
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    # Behind the controller's back: positions are told without the topic, which is not that of its record, and why is logged.
    admin.delete_topics([topic])[topic].result(TIMEOUT)
    await_true(lambda: not exists(kafka_cluster, topic), "the topic is gone")
    create_topic(kafka_cluster.bootstrap_servers, topic)
    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": group})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return False
        return True

    await_true(is_committed, "the group's coordinator answers")
    consumer.close()
    path = f"/v1/groups/{quote(group, safe='')}/positions"

    def is_told() -> bool:
        assert controller.http.get(path).status_code in (200, 404)
        return "positions of group" in log.getvalue()

    await_true(is_told, "the missing topic is logged")
    text = log.getvalue()
    assert not set(text) & {"\x1b", "\x9b", "\u2028", "\u202e", "\r"}
    assert not [line for line in text.splitlines() if line.startswith("2026-01-01")]
    assert quote(group, safe="") in text  # as the path of the request
