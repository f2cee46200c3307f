"""``ordered-kafka produce`` and ``consume`` on real servers, as processes with pipes and in this one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.group_admin import GroupAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, create_topic, unique_name
from tests.streams import change, create


class Cli:
    def __init__(self, cluster: LocalCluster) -> None:
        self._env = {
            "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
        }
        self._runner = CliRunner(env=self._env)

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        result = self._runner.invoke(app, arguments, input=stdin)
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def cli(cluster: LocalCluster) -> Cli:
    return Cli(cluster)


def lines(first: int, count: int) -> str:
    return "".join(f"k{number % 7}:{number}\n" for number in range(first, first + count))


def test_keys_stay_in_order_through_changes(cli: Cli, cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    for number, partitions in enumerate((None, 5, 3)):
        if partitions is not None:
            change(cluster, topic_name, partitions)
        code, out, told = cli(
            "produce", "--topic", topic_name, "--key-separator", ":", stdin=lines(100 * number, 100)
        )
        assert (code, out, told) == (0, "", f"wrote 100 records to {topic_name}\n")
    group = unique_name("consume")
    read = ("consume", "--topic", topic_name, "--group", group, "--from-beginning", "--print-key")
    # A part, and then the rest by another process of the same group.
    first = cli(*read, "--key-separator", ":", "--max-messages", "120")
    assert (first[0], first[2]) == (0, "processed a total of 120 messages\n")
    second = cli(*read, "--key-separator", ":", "--max-messages", "180")
    assert second[0] == 0, second[2]
    found = (first[1] + second[1]).splitlines()
    assert sorted(found) == sorted(lines(0, 300).splitlines())
    for key in range(7):
        numbers = [int(line.partition(":")[2]) for line in found if line.startswith(f"k{key}:")]
        assert numbers == sorted(numbers)
    code, out, told = cli(*read, "--timeout-ms", "300")
    assert (code, out, told) == (0, "", "processed a total of 0 messages\n")


def test_headers_nulls_formats_and_no_group_left(cli: Cli, cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    arguments = [part for one in properties for part in ("--property", one)]
    code, _, told = cli("produce", "--topic", topic_name, *arguments, stdin="a:1\tk\tv\r\nNULL\tNULL\tNULL\n")
    assert code == 0, told
    assert cli("produce", "--topic", topic_name, "--key", "fix", stdin="last")[0] == 0
    read = ("consume", "--topic", topic_name, "--from-beginning", "--max-messages", "3")
    assert cli(*read, "-f", r"%t-%p %k=%v %h|\n")[1] == (
        f"{topic_name}-0 k=v a:1|\n{topic_name}-0 = |\n{topic_name}-0 fix=last |\n"
    )
    code, out, _ = cli(*read, "--property", "print.key=true", "--property", "print.offset=true")
    assert (code, out) == (0, "Offset:0\tk\tv\nOffset:1\tnull\tnull\nOffset:3\tfix\tlast\n")
    assert made_up_groups(cluster) == []


def test_what_comes_before_a_wrong_line_is_written(cli: Cli, cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    code, _, told = cli("produce", "--topic", topic_name, "--key-separator", "=", stdin="a=1\nb=2\nc\nd=4\n")
    assert (code, told) == (2, "error: line 3 has the value 'c': it lacks the key.separator '='\n")
    # Shows that nothing else lies before it.
    assert cli("produce", "--topic", topic_name, stdin="later")[0] == 0
    read = ("consume", "--topic", topic_name, "--from-beginning", "--max-messages", "3")
    assert cli(*read)[1] == "1\n2\nlater\n"


@pytest.mark.long
def test_as_processes_with_pipes_and_a_file(cluster: LocalCluster, topic_name: str, tmp_path: Path) -> None:
    create(cluster, topic_name, 1)
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={cluster.bootstrap_servers}\ncontroller.url={cluster.controller_url}\n"
        "security.protocol=PLAINTEXT\n"
    )
    command = [sys.executable, "-m", "spark_ordered_kafka.cli"]
    options = ["--topic", topic_name, "--command-config", str(file)]
    written = subprocess.run(
        [*command, "produce", *options, "--key", b"x\xff"],
        input=b"\xff\x00\n" * 2000,
        capture_output=True,
        timeout=4 * TIMEOUT,
    )
    assert written.returncode == 0, written.stderr
    # The reader of the pipe ends first.
    shell = f"{' '.join([*command, 'consume', *options])} --from-beginning --print-key --timeout-ms 60000 | head -n 2"
    read = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=4 * TIMEOUT)
    assert (read.returncode, read.stdout) == (0, b"x\xff\t\xff\x00\n" * 2)
    assert b"Traceback" not in read.stderr


@pytest.mark.long
def test_what_ctrl_c_comes_upon_is_printed_or_comes_again(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    given = ["--bootstrap-server", cluster.bootstrap_servers, "--controller", cluster.controller_url]
    command = [sys.executable, "-m", "spark_ordered_kafka.cli"]
    options = ["--topic", topic_name, *given]
    # A pipe takes a small part of a batch.
    expected = [b"%d %s" % (number, b"x" * 1000) for number in range(2000)]
    written = subprocess.run(
        [*command, "produce", *options, "--key", "k"],
        input=b"\n".join(expected),
        capture_output=True,
        timeout=4 * TIMEOUT,
    )
    assert written.returncode == 0, written.stderr
    read = [*command, "consume", *options, "--group", unique_name("consume"), "--from-beginning"]
    with subprocess.Popen(read, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        begun = first.stdout.readline()
        first.send_signal(signal.SIGINT)
        found = [begun, *first.stdout]
        assert first.wait(4 * TIMEOUT) == 0
    assert len(found) < len(expected)
    rest = subprocess.run(
        [*read, "--max-messages", str(len(expected) - len(found)), "--timeout-ms", "10000"],
        capture_output=True,
        timeout=4 * TIMEOUT,
    )
    assert b"".join(found) + rest.stdout == b"\n".join(expected) + b"\n"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_what_ends_a_process_leaves_nothing_behind(
    cluster: LocalCluster, topic_name: str, number: signal.Signals
) -> None:
    create(cluster, topic_name, 1)
    given = ["--bootstrap-server", cluster.bootstrap_servers, "--controller", cluster.controller_url]
    command = [sys.executable, "-m", "spark_ordered_kafka.cli"]
    written, options = lines(0, 100).encode(), ["--topic", topic_name, *given]
    # As in a shell: what started the tests may ignore them.
    both: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": default_signals}
    with (
        subprocess.Popen([*command, "produce", *options], stdin=subprocess.PIPE, **both) as producer,
        subprocess.Popen([*command, "consume", *options, "--from-beginning"], **both) as consumer,
    ):
        assert producer.stdin is not None
        producer.stdin.write(written)
        producer.stdin.flush()
        assert consumer.stdout is not None
        begun = [consumer.stdout.readline() for _ in range(100)]
        for one in (producer, consumer):
            one.send_signal(number)
        # The producer's stdin stays open.
        codes = [one.wait(4 * TIMEOUT) for one in (producer, consumer)]
        told = [one.stderr.read().decode() for one in (producer, consumer) if one.stderr is not None]
    assert codes == [0, 0], told
    assert b"".join(begun) == written
    assert told == [f"wrote 100 records to {topic_name}\n", "processed a total of 100 messages\n"]
    assert made_up_groups(cluster) == []


def default_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def made_up_groups(cluster: LocalCluster) -> list[str]:
    groups = GroupAdmin({"bootstrap.servers": cluster.bootstrap_servers}).groups()
    return [one.group for one in groups if one.group.startswith("ordered-kafka-consume-")]


BEGINNING = ("consume", "--topic", "nope", "--from-beginning", "--consumer-property")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("produce", "--topic", "nope"), 1, "topic 'nope' does not exist"),
        (("produce", "--topic", "{plain}"), 1, "is not under management: adopt it"),
        (("produce", "--topic", "x", "--key", "k", "--key-separator", ":"), 2, "--key has the value 'k'"),
        (("produce", "--topic", "x", "--property", "a=b"), 2, "--property has the value 'a'"),
        (("produce", "--topic", "x", "--producer-property", "acks=0"), 2, "acks has the value '0'"),
        (("consume", "--topic", "nope"), 1, "topic 'nope' does not exist"),
        (("consume", "--topic", "x", "-f", "%q"), 2, "%q means nothing"),
        (("consume", "--topic", "x", "-f", "%v", "--print-key"), 2, "cannot be combined"),
        (("consume", "--topic", "x", "--consumer-property", "group.id=g"), 2, "give --group instead"),
        ((*BEGINNING, "auto.offset.reset=latest"), 2, "auto.offset.reset is 'latest'"),
        ((*BEGINNING, "auto.offset.reset=error"), 2, "auto.offset.reset is 'error'"),
        ((*BEGINNING, "auto.offset.reset=smallest"), 1, "topic 'nope' does not exist"),
    ],
)
def test_wrong_options_are_named(
    cli: Cli, cluster: LocalCluster, arguments: tuple[str, ...], code: int, words: str
) -> None:
    plain = create_topic(cluster.bootstrap_servers, unique_name("plain")) if "{plain}" in arguments else ""
    found, out, told = cli(*[one.format(plain=plain) for one in arguments], stdin="v\n")
    assert (found, out, words in told) == (code, "", True), told
