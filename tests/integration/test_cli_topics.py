"""``ordered-kafka topics`` and ``brokers`` against a running controller."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import TopicView
from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import delete_topic
from tests.servers import TIMEOUT, await_true, create_topic, unique_name


class Cli:
    """Runs commands with the controller's address in the environment."""

    def __init__(self, url: str) -> None:
        self._runner = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": url})

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        result = self._runner.invoke(app, arguments)
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def cli(cluster: LocalCluster) -> Cli:
    return Cli(cluster.controller_url)


def created(cli: Cli, partitions: int = 2) -> str:
    topic = unique_name("cli")
    code, _, error = cli("topics", "create", "--topic", topic, "--partitions", str(partitions))
    assert code == 0, error
    return topic


def test_create_describe_and_list(cli: Cli) -> None:
    topic = unique_name("cli")
    arguments = (
        "--partitions",
        "3",
        "--hash",
        "crc32",
        "--config",
        "retention.ms=60000",
        "--replication-factor",
        "1",
    )
    code, out, _ = cli("topics", "create", "--topic", topic, *arguments)
    assert (code, out) == (0, f"created topic {topic} with 3 partitions, hash crc32\n")
    code, out, _ = cli("topics", "describe", "--topic", topic)
    assert code == 0
    assert out.startswith(f"topic {topic}  id ")
    assert "partitions 3  initial 3  epoch 0  hash crc32  ordered yes" in out
    assert out.splitlines()[1] == "configuration retention.ms=60000"
    assert out.splitlines()[3].split() == ["0", "live", "1", "1", "1", "0", "0", "-"]
    code, out, _ = cli("topics", "list")
    assert [topic, "3", "3", "0", "crc32", "yes", "-"] in [line.split() for line in out.splitlines()]


def test_alter_waits_and_ends_with_one_line(cli: Cli) -> None:
    topic = created(cli)
    code, out, _ = cli("topics", "alter", "--topic", topic, "--partitions", "5")
    assert code == 0
    told = rf"topic {topic}: 2 -> 5 partitions, layout epoch 1, 0 fenced, writers paused \d+\.\d{{3}} s\n"
    assert re.fullmatch(told, out), out
    code, out, _ = cli("topics", "alter", "--topic", topic, "--partitions", "2")
    assert (code, "5 -> 2 partitions, layout epoch 2" in out) == (0, True)


def test_alter_without_waiting(cli: Cli) -> None:
    topic = created(cli)
    code, out, _ = cli("topics", "alter", "--topic", topic, "--partitions", "3", "--no-wait")
    assert code == 0
    assert out.startswith(f"topic {topic} is changing to 3 partitions, change ")
    deadline = time.monotonic() + TIMEOUT
    while (
        json.loads(cli("topics", "describe", "--topic", topic, "--output", "json")[1])["change"] is not None
    ):
        assert time.monotonic() < deadline
    assert "last change 2 -> 3: done" in cli("topics", "describe", "--topic", topic)[1]


def test_validate_only(cli: Cli) -> None:
    topic = created(cli)
    code, out, _ = cli("topics", "alter", "--topic", topic, "--partitions", "4", "--validate-only")
    assert (code, out) == (0, f"topic {topic} could be changed to 4 partitions\n")
    checked = unique_name("cli")
    assert cli("topics", "create", "--topic", checked, "--validate-only")[0] == 0
    assert cli("topics", "describe", "--topic", checked)[0] == 1


def test_json_is_the_answer_of_the_api(cli: Cli) -> None:
    topic = created(cli)
    view = json.loads(cli("topics", "describe", "--topic", topic, "--output", "json")[1])
    assert (view["topic"], view["undeleted_partition_count"]) == (topic, 2)
    ended = json.loads(cli("topics", "alter", "--topic", topic, "--partitions", "3", "--output", "json")[1])
    assert (ended["topic"], ended["change"], ended["last_change"]["outcome"]) == (topic, None, "done")
    assert topic in [
        one["topic"] for one in json.loads(cli("topics", "list", "--output", "json")[1])["topics"]
    ]
    (broker,) = json.loads(cli("brokers", "list", "--output", "json")[1])["brokers"]
    assert broker["id"] == 1


def test_brokers_list(cli: Cli) -> None:
    code, out, _ = cli("brokers", "list")
    assert code == 0
    header, row = out.splitlines()
    assert header.split() == ["BROKER", "RACK", "STATE", "HOSTED", "MAX", "PARTITIONS", "CAPACITY", "EXCESS"]
    assert row.split()[:3] == ["1", "-", "up"]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (
            ("alter", "--topic", "{t}", "--partitions", "1"),
            1,
            "error: INVALID_PARTITIONS: partition_count of",
        ),
        (
            ("alter", "--topic", "{t}", "--cancel"),
            1,
            "error: INVALID_REQUEST: topic '{t}' has no partition change",
        ),
        (
            ("alter", "--topic", "nope", "--partitions", "3"),
            1,
            "error: INVALID_TOPIC_EXCEPTION: topic 'nope' does",
        ),
        (("create", "--topic", "{t}"), 1, "error: TOPIC_ALREADY_EXISTS: "),
        (("create", "--topic", "a b"), 1, "error: INVALID_TOPIC_EXCEPTION: "),
        (
            ("create", "--topic", "x", "--config", "retention"),
            2,
            "error: --config has the value 'retention': ",
        ),
        (("create", "--topic", "x", "--hash", "md5"), 1, "error: INVALID_REQUEST: hash has the value 'md5'"),
        (("alter", "--topic", "{t}"), 2, "error: --partitions is missing: "),
        (("alter", "--topic", "{t}", "--partitions", "3", "--cancel"), 2, "error: --cancel "),
        (("alter", "--topic", "{t}", "--partitions", "many"), 2, "Usage: "),
        (("alter", "--partitions", "3"), 2, "Usage: "),
        (("list", "--controller", "nowhere"), 2, "error: --controller has the value 'nowhere': "),
        (
            ("list", "--controller", "http://127.0.0.1:1"),
            1,
            "error: REQUEST_TIMED_OUT: no controller answered GET",
        ),
    ],
)
def test_errors_and_exit_codes(cli: Cli, arguments: tuple[str, ...], code: int, error: str) -> None:
    topic = created(cli)
    given, _, told = cli("topics", *[argument.format(t=topic) for argument in arguments])
    assert given == code, told
    assert told.startswith(error.format(t=topic)), told


def test_missing_controller_is_a_usage_error() -> None:
    result = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": ""}).invoke(app, ["topics", "list"])
    assert result.exit_code == 2
    assert "--controller" in result.stderr


def test_help_starts_without_servers_or_heavy_imports() -> None:
    heavy = "{'pyspark', 'pyarrow', 'pandas', 'fastapi', 'uvicorn', 'kafka'}"
    script = f"import sys, spark_ordered_kafka.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=4 * TIMEOUT, check=True
    )
    assert done.stdout == "[]\n"


def test_replicas_as_kafka_topics_writes_them(cli: Cli) -> None:
    topic = unique_name("cli")
    code, out, told = cli("topics", "create", "--topic", topic, "--replica-assignment", "1,1")
    assert (code, out) == (0, f"created topic {topic} with 2 partitions, hash murmur3\n"), told
    alter = ("topics", "alter", "--topic", topic)
    code, out, told = cli(*alter, "--partitions", "3", "--replica-assignment", "1,1,1")
    assert (code, "2 -> 3 partitions" in out) == (0, True), told
    code, out, _ = cli(*alter, "--replication-factor", "1", "--validate-only")
    assert (code, out) == (0, f"topic {topic} could have replication factor 1\n")
    code, out, told = cli(*alter, "--replication-factor", "1")
    assert (code, out) == (0, f"topic {topic} has replication factor 1\n"), told
    code, out, told = cli(*alter, "--replica-assignment", "1,1,1", "--no-wait")
    assert (code, out) == (0, f"topic {topic} is getting the replicas asked for\n"), told
    for arguments, status, words in (
        (("--replication-factor", "2"), 1, "INVALID_REPLICATION_FACTOR"),
        (("--replica-assignment", "1,7,1"), 1, "UNKNOWN_MEMBER_ID"),
        (("--replica-assignment", "1,x"), 2, "--replica-assignment has the value '1,x'"),
        (("--partitions", "4", "--replica-assignment", "1"), 2, "the replicas of all 4 are needed"),
        (("--partitions", "4", "--replication-factor", "1"), 2, "one after the other"),
        (("--replication-factor", "1", "--replica-assignment", "1"), 2, "cannot be combined"),
        (("--replication-factor", "1", "--config", "a=b"), 2, "--replication-factor has the value"),
        (("--replication-factor", "1", "--force"), 2, "--force has the value"),
        (("--replica-assignment", "1,1,1", "--force"), 2, "--force has the value"),
        (("--config", "retention.ms=70001", "--force"), 2, "--force has the value"),
    ):
        code, _, told = cli(*alter, *arguments)
        assert code == status, (arguments, told)
        assert words in told


def test_delete_asks_first_and_tells_each_topic(cli: Cli) -> None:
    one, two = created(cli), created(cli)
    delete = ("topics", "delete", "--topic", one)
    code, out, told = cli(*delete)  # nobody answers
    assert (code, out.strip()) == (1, "")
    assert f"Delete {one} with all records?" in told
    code, out, _ = cli(*delete, "--validate-only")
    assert (code, out) == (0, f"topic {one}: could be deleted\n")
    code, out, told = cli(*delete, "--topic", "nope", "--topic", two, "--yes")
    assert (code, out) == (1, f"topic {one}: deleted\ntopic {two}: deleted\n")
    assert told == "error: topic nope: UNKNOWN_TOPIC_OR_PARTITION: topic 'nope' does not exist\n"
    third = created(cli)
    code, out, _ = cli("topics", "delete", "--topic", third, "--yes", "--output", "json")
    assert (code, [row["error"] for row in json.loads(out)["topics"]]) == (0, ["NONE"])
    assert cli("topics", "describe", "--topic", third)[0] == 1


@pytest.fixture(scope="module")
def unmanaged(cluster: LocalCluster) -> str:
    """A topic that no controller manages."""
    return create_topic(cluster.bootstrap_servers, unique_name("plain"), 2, {"segment.ms": "70000"})


@pytest.mark.long
def test_topics_beyond_management_are_listed_as_such(cli: Cli, unmanaged: str) -> None:
    topic = created(cli)
    code, out, _ = cli("topics", "list")
    rows = [line.split() for line in out.splitlines()]
    assert (code, [unmanaged, "2", "-", "-", "-", "not", "managed", "-"] in rows) == (0, True)
    assert [topic, "2", "2", "0", "murmur3", "yes", "-"] in rows
    assert unmanaged not in cli("topics", "list", "--managed")[1]
    assert "__" not in cli("topics", "list", "--exclude-internal")[1]
    pattern = f"{topic}|{unmanaged[:-1]}."
    assert [line.split()[0] for line in cli("topics", "list", "--topic", pattern)[1].splitlines()[1:]] == [
        topic,
        unmanaged,
    ]
    body = json.loads(cli("topics", "list", "--topic", pattern, "--output", "json")[1])
    assert [one["topic"] for one in body["topics"]] == [topic]
    (other,) = body["unmanaged"]
    assert (other["topic"], other["managed"], len(other["partitions"])) == (unmanaged, False, 2)


def test_describe_shows_configuration_of_any_topic(cli: Cli, unmanaged: str) -> None:
    code, out, told = cli("topics", "describe", "--topic", unmanaged)
    assert code == 0, told
    first, configuration, header, *rows = out.splitlines()
    assert first.startswith(f"topic {unmanaged}  id ")
    assert first.endswith("  partitions 2  not under management")
    assert configuration == "configuration segment.ms=70000"
    assert header.split() == ["PARTITION", "LEADER", "REPLICAS", "ISR"]
    assert [row.split() for row in rows] == [["0", "1", "1", "1"], ["1", "1", "1", "1"]]
    view = json.loads(cli("topics", "describe", "--topic", unmanaged, "--output", "json")[1])
    assert (view["managed"], view["configs"], view["min_insync_replicas"]) == (
        False,
        {"segment.ms": "70000"},
        1,
    )
    topic = created(cli)
    assert cli("topics", "alter", "--topic", topic, "--config", "retention.ms=70001")[0] == 0
    # The broker that is asked hears of it after Kafka's answer.
    await_true(
        lambda: "configuration retention.ms=70001\n" in cli("topics", "describe", "--topic", topic)[1],
        "the configuration is shown",
    )
    code, out, _ = cli("topics", "describe", "--topic", topic, "--topic", f"{unmanaged[:-1]}.")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("topic ")] == [topic, unmanaged]
    both = json.loads(
        cli("topics", "describe", "--topic", topic, "--topic", unmanaged, "--output", "json")[1]
    )
    assert [one["topic"] for one in both["topics"]] == [topic, unmanaged]


@pytest.mark.long
def test_a_topic_that_cannot_be_described_hides_no_other_one(cli: Cli, cluster: LocalCluster) -> None:
    """Another tool has deleted one: it is still under management."""
    topic, gone = created(cli), created(cli)
    delete_topic(cluster, gone)
    try:
        code, out, error = cli("topics", "describe")
        assert (code, f"topic {topic}  id " in out, f"topic {gone}  id " in out) == (1, True, False)
        assert (
            f"error: UNKNOWN_TOPIC_OR_PARTITION: topic {gone!r} is under management but not in Kafka any more"
            in error
        )
        code, out, error = cli("topics", "describe", "--output", "json")
        names = {one["topic"] for one in json.loads(out)["topics"]}
        assert (code, topic in names, gone in names, gone in error) == (1, True, False, True)
        assert cli("topics", "describe", "--topic", gone)[:2] == (1, "")
    finally:
        assert cli("topics", "delete", "--topic", gone, "--yes")[0] == 0


@pytest.mark.long
def test_brokers_that_hang_are_waited_for_once(
    cli: Cli, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once more for each four of the topics."""
    topics = [created(cli, 1) for _ in range(12)]
    asked: list[str] = []
    topic_of = ControllerClient.topic

    def counted(self: ControllerClient, topic: str, *, details: bool = False) -> TopicView:
        asked.append(topic)
        return topic_of(self, topic, details=details)

    monkeypatch.setattr(ControllerClient, "topic", counted)
    cluster.pause("broker-1")
    try:
        code, out, error = cli("topics", "describe")
    finally:
        cluster.resume("broker-1")
    # It may name the same error once more, as the last one of the requests to the broker.
    refused = [line for line in error.splitlines() if line.startswith("error: REQUEST_TIMED_OUT")]
    assert (code, out, len(refused)) == (1, "", 1), error
    assert len(set(asked)) <= 8, asked
    for topic in topics:
        assert cli("topics", "delete", "--topic", topic, "--yes")[0] == 0


def test_describe_filters_partitions(cli: Cli, cluster: LocalCluster, unmanaged: str) -> None:
    needy = create_topic(cluster.bootstrap_servers, unique_name("needy"), 1, {"min.insync.replicas": "2"})
    pattern = f"{needy}|{unmanaged}"
    for option, shown in (
        ("--under-replicated-partitions", []),
        ("--unavailable-partitions", []),
        ("--under-min-isr-partitions", [needy]),
        ("--at-min-isr-partitions", [unmanaged, unmanaged]),
    ):
        code, out, told = cli("topics", "describe", "--topic", pattern, option)
        assert code == 0, told
        names = [line.split()[0] for line in out.splitlines()[1:]]
        assert names == shown, (option, out)
        body = json.loads(cli("topics", "describe", "--topic", pattern, option, "--output", "json")[1])
        assert [one["topic"] for one in body["topics"]] == sorted(set(shown))
    assert cli("topics", "describe", "--unavailable-partitions")[:2] == (0, "no such partitions\n")
    code, _, told = cli("topics", "describe", "--unavailable-partitions", "--under-min-isr-partitions")
    assert (code, "give one" in told) == (2, True)


def test_if_exists_and_if_not_exists(cli: Cli, unmanaged: str) -> None:
    topic, none = created(cli), unique_name("none")
    code, _, told = cli("topics", "create", "--topic", topic, "--if-not-exists")
    assert (code, told) == (0, f"topic {topic} exists, nothing is done\n")
    code, _, told = cli("topics", "create", "--topic", unmanaged, "--if-not-exists")
    assert (code, "not under management: adopt it" in told) == (1, True)
    code, _, told = cli("topics", "alter", "--topic", none, "--partitions", "3", "--if-exists")
    assert (code, told) == (0, f"topic {none} does not exist, nothing is done\n")
    code, out, told = cli("topics", "delete", "--topic", none, "--topic", topic, "--if-exists", "--yes")
    assert (code, out) == (0, f"topic {topic}: deleted\n")
    assert told == f"topic {none} does not exist, nothing is done\n"
    code, _, told = cli("topics", "delete", "--topic", unmanaged, "--if-exists", "--yes")
    assert (code, "is not under management" in told) == (1, True)
    assert cli("topics", "describe", "--topic", none, "--if-exists")[:2] == (0, "")
    code, _, told = cli("topics", "describe", "--topic", none)
    assert (code, f"no topic that you may describe is or matches '{none}'" in told) == (1, True)
