"""Topics without ordered delivery, switching it on and off, and altering Kafka's configuration of a topic."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, InProcess
from tests.integration.crash_control import CrashingController, await_layout
from tests.integration.live_writer import check_epochs, live_writers
from tests.integration.test_cli_topics import Cli
from tests.servers import TIMEOUT, await_true, unique_name


def alter(
    controller: InProcess, topic: str, *, wait: bool = True, **fields: Any
) -> tuple[int, schemas.TopicResult]:
    params = {"wait": TIMEOUT} if wait else {}
    answer = controller.http.patch(f"/v1/topics/{topic}", json=fields, params=params)
    body = {"topic": topic, **answer.json()}
    return answer.status_code, schemas.TopicResult.model_validate(body)


def configs(controller: InProcess, topic: str) -> dict[str, str]:
    return TopicConfigs(controller.service.admin.requests, TIMEOUT).describe(topic)


def await_configs(controller: InProcess, topic: str, expected: dict[str, str]) -> None:
    """A broker hears of an altered configuration some time after the answer."""
    await_true(lambda: expected.items() <= configs(controller, topic).items(), f"{topic} has {expected}")


def test_unordered_topic_changes_without_pause_or_fence(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = controller.create(2, ordered_delivery=False)
    writer = _writer(kafka_cluster, topic)
    for count in (5, 3):
        assert controller.alter(topic, count).error == "NONE"
        last = controller.change(topic).last_change
        assert last is not None
        assert (last.outcome, last.fenced, last.writer_pause_seconds) == ("done", 0, 0.0)
    writer.commit_transaction(TIMEOUT)
    layouts = controller.layout(topic).layouts
    assert [(one.undeleted_partition_count, one.ordered_delivery) for one in layouts] == [
        (2, False),
        (5, False),
        (3, False),
    ]


@pytest.mark.parametrize("ordered_delivery", [pytest.param(True, marks=pytest.mark.long), False])
def test_switching_is_a_layout_of_its_own_behind_a_fence(
    controller: InProcess, kafka_cluster: LocalCluster, ordered_delivery: bool
) -> None:
    topic = controller.create(2, ordered_delivery=not ordered_delivery)
    writer = _writer(kafka_cluster, topic)
    kind = "order" if ordered_delivery else "unorder"
    with Hold(p.Fence) as hold:
        controller.before = hold
        status, started = alter(controller, topic, wait=False, ordered_delivery=ordered_delivery)
        assert (status, started.error) == (200, "NONE")
        hold.await_reached()
        change = controller.topic(topic).change
        assert change is not None
        assert (change.id, change.kind, change.source, change.target) == (started.change_id, kind, 2, 2)
        # Held in both directions: a writer that begins now must not take the old layout.
        assert controller.http.get(f"/v1/topics/{topic}/layout?writer=true").status_code == 503
        for fields in ({"ordered_delivery": ordered_delivery}, {"ordered_delivery": not ordered_delivery}):
            status, second = alter(controller, topic, **fields)
            assert (status, second.error) == (409, "PARTITION_CHANGE_IN_PROGRESS")
            assert "switching ordered delivery" in str(second.error_message)
        assert controller.alter(topic, 3).error == "PARTITION_CHANGE_IN_PROGRESS"
    last = controller.await_end(topic)
    assert (last.outcome, last.kind, last.fenced) == ("done", kind, 1)
    with pytest.raises(KafkaException):
        writer.commit_transaction(TIMEOUT)
    view = controller.topic(topic)
    assert (view.ordered_delivery, view.layout_epoch, view.undeleted_partition_count) == (
        ordered_delivery,
        1,
        2,
    )
    layouts = controller.layout(topic).layouts
    assert [one.ordered_delivery for one in layouts] == [not ordered_delivery, ordered_delivery]
    # One aborted record and its marker.
    assert layouts[1].starts == [2, 0]
    answer = controller.http.get(f"/v1/topics/{topic}/layout?writer=true").json()
    assert (answer["ordered_delivery"], answer["layout_epoch"]) == (ordered_delivery, 1)
    # From here on the topic changes as its new regime says.
    assert controller.alter(topic, 3).error == "NONE"
    assert controller.layout(topic).layouts[2].ordered_delivery == ordered_delivery
    after = controller.change(topic).last_change
    assert after is not None
    assert (after.writer_pause_seconds > 0) == ordered_delivery


def _writer(cluster: LocalCluster, topic: str) -> Producer:
    """An ordered writer with an open transaction of one record in partition 0."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"ordered:{topic}:w:0"}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"value", b"key", partition=0)
    assert producer.flush(TIMEOUT) == 0
    return producer


def test_switching_can_be_cancelled_and_checked_only(controller: InProcess) -> None:
    topic = controller.create(1)
    assert alter(controller, topic, ordered_delivery=False, validate_only=True)[1].change_id is None
    with Hold(p.ListTransactions) as hold:
        controller.before = hold
        alter(controller, topic, wait=False, ordered_delivery=False)
        hold.await_reached()
        assert controller.http.delete(f"/v1/topics/{topic}/change").status_code == 200
    assert controller.await_end(topic).outcome == "cancelled"
    view = controller.topic(topic)
    assert (view.ordered_delivery, view.layout_epoch) == (True, 0)


def test_what_is_so_already_changes_nothing(controller: InProcess) -> None:
    topic = controller.create(1)
    status, answer = alter(controller, topic, ordered_delivery=True)
    assert (status, answer.error, answer.change_id) == (200, "NONE", None)
    assert controller.topic(topic).layout_epoch == 0


def test_configuration_is_altered_checked_and_reset(controller: InProcess) -> None:
    topic = controller.create(1, configs={"retention.ms": "60000", "max.message.bytes": "2000"})
    default = configs(controller, controller.create(1))["retention.ms"]
    wanted = {"retention.ms": None, "max.message.bytes": "3000"}
    assert alter(controller, topic, configs=wanted, validate_only=True)[0] == 200
    assert configs(controller, topic)["retention.ms"] == "60000"
    status, answer = alter(controller, topic, configs=wanted)
    assert (status, answer.error, answer.change_id) == (200, "NONE", None)
    await_configs(controller, topic, {"retention.ms": default, "max.message.bytes": "3000"})
    for wrong, words in [({"retention.ms": "soon"}, "retention.ms"), ({"no.such": "1"}, "no.such")]:
        status, answer = alter(controller, topic, configs=wrong, ordered_delivery=False)
        assert (status, answer.error) == (400, "INVALID_CONFIG")
        assert words in str(answer.error_message)
    # All or nothing: the wrong configuration has kept ordered delivery on as well.
    assert controller.topic(topic).ordered_delivery
    status, answer = alter(controller, topic)
    assert (status, answer.error) == (400, "INVALID_REQUEST")
    assert "nothing is to be altered" in str(answer.error_message)
    assert alter(controller, "no-such-topic", ordered_delivery=True)[0] == 404
    both = alter(controller, topic, configs={"retention.ms": "1000"}, ordered_delivery=False)[1]
    assert both.error == "NONE"
    await_configs(controller, topic, {"retention.ms": "1000"})
    assert not controller.topic(topic).ordered_delivery


def test_refused_switch_leaves_the_configuration_alone(controller: InProcess) -> None:
    topic = controller.create(1, configs={"retention.ms": "60000"})
    with Hold(p.ListTransactions) as hold:
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        status, _ = alter(controller, topic, configs={"retention.ms": "1"}, ordered_delivery=False)
        assert status == 409
        assert configs(controller, topic)["retention.ms"] == "60000"
    assert controller.await_end(topic).outcome == "done"


def has_died_of_switch(
    crashing: CrashingController, client: ControllerClient, topic: str, ordered: bool
) -> bool:
    """Whether the controller has crashed; if not, it is asked for the switch, which it may have begun already."""
    if crashing.has_crashed():
        return True
    try:
        client.alter_topic(topic, schemas.AlterTopicRequest(ordered_delivery=ordered))
    except UnavailableError:
        pass
    except RequestError as error:
        if error.code is not ErrorCode.PARTITION_CHANGE_IN_PROGRESS:
            raise
    return False


@pytest.mark.long
@pytest.mark.timeout(300)
def test_switch_ends_right_when_the_controller_dies_in_the_middle(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Live writers keep to the layout of every epoch, and each switch loses its controller somewhere else."""
    crashing = CrashingController(kafka_cluster, tmp_path)
    topic = unique_name("switch")
    # Its session, which is short, may end at any time on a busy machine, and begins anew.
    with (
        crashing.running(),
        ControllerClient(crashing.url, retry_for=TIMEOUT) as client,
        ControllerClient(crashing.url) as switching,
    ):
        client.create_topic(schemas.CreateTopicRequest(topic=topic, partitions=2))
        with live_writers(kafka_cluster.bootstrap_servers, crashing.url, topic) as writers:
            for epoch, (ordered, crash) in enumerate(
                [(False, "ListTransactions"), (True, "ReadBoundaries"), (False, "CommitLayout")], 1
            ):
                crashing.armed.write_text(crash)
                await_true(partial(has_died_of_switch, crashing, switching, topic, ordered), "the crash")
                crashing.start()
                await_layout(client, topic, epoch)
                view = client.topic(topic)
                assert (view.ordered_delivery, view.undeleted_partition_count) == (ordered, 2)
                for writer in writers:
                    writer.await_commits(1)
        history = client.layout(topic)
        assert [one.ordered_delivery for one in history.layouts] == [True, False, True, False]
        assert check_epochs(kafka_cluster.bootstrap_servers, history) > 0


@pytest.fixture(scope="module")
def cli(cluster: LocalCluster) -> Cli:
    return Cli(cluster.controller_url)


def test_command_line_creates_shows_and_alters(cli: Cli) -> None:
    topic = unique_name("cli")
    assert cli("topics", "create", "--topic", topic, "--no-ordered-delivery")[0] == 0
    assert "ordered no" in cli("topics", "describe", "--topic", topic)[1]
    assert [topic, "1", "1", "0", "murmur3", "no", "-"] in [
        line.split() for line in cli("topics", "list")[1].splitlines()
    ]
    arguments = ("topics", "alter", "--topic", topic, "--ordered-delivery")
    assert cli(*arguments, "--validate-only")[1] == f"topic {topic} could be altered\n"
    code, out, _ = cli(*arguments, "--config", "retention.ms=60000")
    assert code == 0
    assert out.startswith(
        f"topic {topic}: configuration altered (retention.ms=60000), ordered delivery on, layout epoch 1, 0 fenced, "
    )
    assert cli(*arguments)[:2] == (0, f"topic {topic}: ordered delivery on already\n")
    code, out, _ = cli("topics", "describe", "--topic", topic)
    assert "ordered yes" in out
    assert "last change ordered delivery on: done" in out
    code, out, _ = cli(
        "topics", "alter", "--topic", topic, "--delete-config", "retention.ms", "--output", "json"
    )
    assert (code, json.loads(out)["error"]) == (0, "NONE")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("--partitions", "3", "--ordered-delivery"), 2, "error: --partitions has the value 3: cannot be"),
        (("--partitions", "3", "--config", "retention.ms=1"), 2, "error: --partitions has the value 3: "),
        (("--cancel", "--no-ordered-delivery"), 2, "error: --cancel has the value True: can be combined"),
        (("--config", "retention.ms"), 2, "error: --config has the value 'retention.ms': NAME=VALUE"),
        (("--config", "a=1", "--config", "a=2"), 2, "error: --config has the value 'a=2': a was given"),
        (("--delete-config", "a=1"), 2, "error: --delete-config has the value 'a=1': NAME is needed"),
        (
            ("--config", "a=1", "--delete-config", "a"),
            2,
            "error: --delete-config has the value 'a': --config",
        ),
        ((), 2, "error: --partitions is missing: give the new partition count, --replication-factor"),
        (("--config", "no.such=1"), 1, "error: UNKNOWN_TOPIC_OR_PARTITION: topic 'no-such-topic' does not"),
    ],
)
def test_command_line_refuses(cli: Cli, arguments: tuple[str, ...], code: int, error: str) -> None:
    given, _, told = cli("topics", "alter", "--topic", "no-such-topic", *arguments)
    assert given == code, told
    assert told.startswith(error), told
