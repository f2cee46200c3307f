"""``ordered-kafka leaders elect`` and ``brokers describe|alter`` on real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.servers import await_true, create_topic, unique_name


class Cli:
    def __init__(self, servers: str) -> None:
        self._runner = CliRunner(env={"BOOTSTRAP_SERVERS": servers})

    def __call__(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        result = self._runner.invoke(app, arguments, input=stdin)
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def cli(kafka_cluster: LocalCluster) -> Cli:
    return Cli(kafka_cluster.bootstrap_servers)


@pytest.fixture
def rate(cli: Cli) -> Iterator[str]:
    """A dynamic property that nothing else here uses; taken back at the end."""
    name = "log.cleaner.io.max.bytes.per.second"
    yield name
    cli("brokers", "alter", "--broker", "1", "--delete-config", name)


def configs(cli: Cli, *more: str) -> dict[str, dict[str, object]]:
    code, out, told = cli("brokers", "describe", "--broker", "1", "--output", "json", *more)
    assert code == 0, told
    return {one["name"]: one for one in json.loads(out)["configs"]}


def test_a_broker_is_configured_while_it_runs(cli: Cli, rate: str) -> None:
    assert rate not in configs(cli)
    code, out, told = cli(
        "brokers", "alter", "--broker", "1", "--config", f"{rate}=1000000", "--validate-only"
    )
    assert (code, out) == (0, f"broker 1: could be altered ({rate}=1000000)\n"), told
    assert rate not in configs(cli)
    assert cli("brokers", "alter", "--broker", "1", "--config", f"{rate}=1000000")[0] == 0
    await_true(lambda: rate in configs(cli), "the broker shows it")
    assert float(str(configs(cli)[rate]["value"])) == 1_000_000
    assert configs(cli)[rate]["source"] == "DYNAMIC_BROKER_CONFIG"
    code, out, _ = cli("brokers", "describe", "--broker", "1")
    assert (code, rate in out) == (0, True)
    code, out, _ = cli("brokers", "alter", "--broker", "1", "--delete-config", rate)
    assert (code, out) == (0, f"broker 1: altered ({rate})\n")
    await_true(lambda: rate not in configs(cli), "it is gone")
    everything = configs(cli, "--all")
    assert everything["log.dirs"]["source"] == "STATIC_BROKER_CONFIG"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--config", "a=b"), 2, "Missing option '--broker'"),
        (("--broker", "1"), 2, "--config is missing: give it, or --delete-config"),
        (("--broker", "1", "--config", "num.io.threads"), 2, "NAME=VALUE is needed"),
        (("--broker", "1", "--config", "num.io.threads=many"), 1, "num.io.threads"),
        (("--broker", "1", "--config", "node.id=5"), 1, "node.id"),
        (("--broker", "9", "--config", "num.io.threads=4"), 1, "broker 9 is not alive; those that are: 1\n"),
    ],
)
def test_what_cannot_be_altered_is_named(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    found, out, told = cli("brokers", "alter", *arguments)
    assert (found, out, words in told) == (code, "", True), told


def test_leaders_are_elected_by_name_file_and_all(
    cli: Cli, kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = create_topic(kafka_cluster.bootstrap_servers, unique_name("led"), 2)
    elect = ("leaders", "elect", "--election-type", "preferred")
    code, out, told = cli(*elect, "--topic", topic, "--partition", "1")
    assert (code, out) == (0, f"led by the right replica already: {topic}-1\n"), told
    code, _, told = cli(*elect, "--topic", topic, "--partition", "7")
    assert (code, f"{topic}-7" in told) == (1, True)
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": p} for p in (0, 1)]}))
    code, out, told = cli(*elect, "--path-to-json-file", str(file), "--output", "json")
    assert code == 0, told
    assert [row["result"] for row in json.loads(out)["partitions"]] == ["not needed", "not needed"]
    assert cli(*elect, "--all-topic-partitions")[0] == 0


@pytest.mark.long
def test_a_preferred_leader_comes_back(three_brokers: LocalCluster) -> None:
    cli = Cli(three_brokers.bootstrap_servers)
    admin = KafkaAdmin(three_brokers.bootstrap_servers)
    topic = unique_name("back")
    admin.create_topic(topic, {0: [1, 2]}, {})
    try:

        def leader() -> int:
            described = admin.describe_topics([topic]).get(topic)
            return -1 if described is None else described.partitions[0].leader

        await_true(lambda: leader() == 1, "the preferred replica leads")
        three_brokers.stop("broker-1")
        await_true(lambda: leader() == 2, "the other replica leads")
        three_brokers.start("broker-1")
        await_true(
            lambda: set(admin.describe_topics([topic])[topic].partitions[0].isr) == {1, 2}, "both are in sync"
        )
        code, out, told = cli(
            "leaders", "elect", "--election-type", "preferred", "--topic", topic, "--partition", "0"
        )
        assert code == 0, told
        assert topic in out
        await_true(lambda: leader() == 1, "the preferred replica leads again")
    finally:
        admin.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "one of --topic, --all-topic-partitions, --path-to-json-file is needed"),
        (("--topic", "t", "--all-topic-partitions"), "one of --topic"),
        (("--topic", "t"), "--partition is missing"),
        (("--all-topic-partitions", "--partition", "1"), "--partition has the value 1"),
        (("--path-to-json-file", "/nonexistent"), "No such file"),
        (("--path-to-json-file", "{file}"), "is needed"),
    ],
)
def test_wrong_partitions_are_named(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    file = tmp_path / "wrong.json"
    for text in ("[]", "{}", '{"partitions": []}', '{"partitions": [{"topic": "t", "partition": "1"}]}'):
        file.write_text(text)
        given = [one.format(file=file) for one in arguments]
        code, out, told = cli("leaders", "elect", "--election-type", "preferred", *given)
        assert (code, out, words in told) == (2, "", True), told


def test_an_unclean_election_asks_first(cli: Cli) -> None:
    code, out, told = cli(
        "leaders", "elect", "--election-type", "unclean", "--topic", "t", "--partition", "0"
    )
    assert (code, out.strip()) == (1, "")
    assert "What they lack is lost" in told
