"""``ordered-kafka log-dirs``: log directories of brokers, with the options of ``kafka-log-dirs``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
from spark_ordered_kafka.cli.log_dir_moves import move, verify
from spark_ordered_kafka.errors import ErrorCode

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import BrokerLogDirs, LogDirList, LogDirView

app = command_group("log-dirs")
app.command()(move)
app.command()(verify)

_DIRECTORIES = ("BROKER", "LOG DIR", "STATE", "REPLICAS", "SIZE", "FREE", "OF")
_REPLICAS = ("BROKER", "LOG DIR", "TOPIC", "PARTITION", "SIZE", "OFFSET LAG", "TEMPORARY")


class LogDirsOutput(StrEnum):
    """How log directories are printed; ``kafka``: the JSON of ``kafka-log-dirs --describe``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    KAFKA = "kafka"


@app.command()
def describe(
    broker_list: Annotated[
        str,
        typer.Option("--broker-list", metavar="ID,ID,...", help="Ids of the brokers.", show_default="all"),
    ] = "",
    log_dirs: Annotated[
        str,
        typer.Option(
            "--log-dirs", metavar="PATH,PATH,...", help="These directories alone.", show_default="all"
        ),
    ] = "",
    topic_list: Annotated[
        str,
        typer.Option(
            "--topic-list",
            metavar="TOPIC,TOPIC,...",
            help="Replicas of these topics alone.",
            show_default="all",
        ),
    ] = "",
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: Annotated[
        LogDirsOutput,
        typer.Option(
            "--output",
            help="How to print the result on stdout; kafka: the JSON of kafka-log-dirs --describe, "
            "with brokers, log directories and partitions sorted.",
        ),
    ] = LogDirsOutput.TABLE,
) -> None:
    """Log directories and the replicas in them: sizes, lags, temporary replicas, and which directories are offline."""
    with common.connected(controller, command_config=command_config) as client:
        brokers, paths = parse_ids("--broker-list", broker_list), parse_texts(log_dirs)
        topics = parse_texts(topic_list)
        if output is LogDirsOutput.KAFKA:
            _print_as_kafka(client, brokers, paths, topics)
            return
        found = client.log_dirs(brokers=brokers, log_dirs=paths, topics=topics)
    if output is not LogDirsOutput.TABLE:
        _print_data(found, common.OutputFormat(output.value), single=len(brokers) == 1)
    else:
        _print_tables(found)
    _end_if_failed(found.brokers)
    _end_if_missing(found.brokers, paths)


def _print_as_kafka(
    client: ControllerClient, brokers: Sequence[int], paths: Collection[str], topics: Collection[str]
) -> None:
    from spark_ordered_kafka.cli.kafka_log_dirs import QUERYING, answered

    # Ask for everything: unknown topics and paths are only a warning here.
    found = client.log_dirs(brokers=brokers)
    # Kafka's tool leaves out brokers that are down, unless they are named.
    rows = [row for row in found.brokers if brokers or row.error_code != ErrorCode.BROKER_NOT_AVAILABLE]
    typer.echo(QUERYING)
    _end_if_failed(rows)
    for line in answered(rows, topics, paths):
        typer.echo(line)
    for kind, named, known in (
        ("topic", topics, {replica.topic for one in _directories(rows) for replica in one.partitions}),
        ("log directory", paths, {one.path for one in _directories(rows)}),
    ):
        for value in named:
            if value not in known:
                typer.echo(f"warning: these brokers have nothing of {kind} {value!r}", err=True)


def _print_data(found: LogDirList, output: common.OutputFormat, *, single: bool) -> None:
    if not single:
        common.print_body(found, output)
        return
    (broker,) = found.brokers
    common.print_data({"version": found.version, **broker.model_dump(mode="json")}, output)


def _state(log_dir: LogDirView) -> str:
    if not log_dir.is_live:
        return f"offline: {log_dir.error}"
    return "cordoned" if log_dir.is_cordoned else "online"


def _print_tables(found: LogDirList) -> None:
    from spark_ordered_kafka.cli.units import shown_bytes

    def shown(count: int | None) -> str | None:
        return None if count is None else shown_bytes(count)

    directories = [
        (
            row.broker,
            one.path,
            _state(one),
            len(one.partitions),
            shown_bytes(sum(replica.size for replica in one.partitions)),
            shown(one.usable_bytes),
            shown(one.total_bytes),
        )
        for row in found.brokers
        for one in row.log_dirs
    ]
    replicas = [
        (
            row.broker,
            one.path,
            replica.topic,
            replica.partition,
            shown_bytes(replica.size),
            replica.offset_lag,
            "yes" if replica.is_temporary else None,
        )
        for row in found.brokers
        for one in row.log_dirs
        for replica in sorted(one.partitions, key=lambda replica: (replica.topic, replica.partition))
    ]
    common.print_table(_DIRECTORIES, directories)
    if replicas:
        typer.echo()
        common.print_table(_REPLICAS, replicas)


def _directories(rows: Sequence[BrokerLogDirs]) -> Iterator[LogDirView]:
    for row in rows:
        yield from row.log_dirs


def _end_if_missing(rows: Sequence[BrokerLogDirs], paths: Collection[str]) -> None:
    """Report the ``paths`` that no broker has, and exit if there are any."""
    by_path: dict[str, list[LogDirView]] = defaultdict(list)
    for row in _directories(rows):
        by_path[row.path].append(row)
    asked = [by_path[path] for path in paths if path in by_path]
    missing = [
        found for found in asked if all(row.error_code == ErrorCode.LOG_DIR_NOT_FOUND for row in found)
    ]
    for first, *_ in missing:
        typer.echo(f"error: {first.error}: {first.error_message}", err=True)
    if missing:
        raise typer.Exit(common.REFUSED)


def _end_if_failed(rows: Sequence[BrokerLogDirs]) -> None:
    """Report the brokers that gave no answer, and exit if there are any."""
    if common.print_errors(rows, lambda row: f"broker {row.broker}: "):
        raise typer.Exit(common.REFUSED)
