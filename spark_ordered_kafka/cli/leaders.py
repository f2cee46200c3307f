"""``ordered-kafka leaders elect``, with the options of ``kafka-leader-election``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, broker_conf
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.cluster_admin import Elections
    from spark_ordered_kafka.kafka.values import PartitionId

app = command_group("leaders")


class ElectionKind(StrEnum):
    """Which replicas may become leaders."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@app.callback()
def leaders() -> None:
    """Elect leaders of partitions."""


@app.command()
def elect(
    election_type: Annotated[
        ElectionKind,
        typer.Option(
            help="preferred: the first replica, if it is in sync. unclean: any, where no replica in sync is alive.",
            case_sensitive=False,
        ),
    ],
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Name of the topic.")] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=2**31 - 1, help="Partition of the topic.")
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions of the cluster.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='Partitions in JSON: {"partitions": [{"topic": "orders", "partition": 1}]}.'
        ),
    ] = None,
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before an unclean election.")] = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Let preferred replicas lead again, or any replica where all that are in sync are lost.

    An unclean election loses the records that the new leader lacks, and so the order of their keys.
    """
    tps = _partitions(topic, partition, all_topic_partitions, path_to_json_file)
    conf = broker_conf(bootstrap_server, command_config)
    if election_type is ElectionKind.UNCLEAN and not yes:
        typer.confirm("Elect unclean leaders? What they lack is lost.", abort=True, err=True)
    from spark_ordered_kafka.client.cluster_admin import ClusterAdmin

    found = ClusterAdmin(conf).elect(election_type.value, tps)
    _print(found, election_type, output)
    if found.failed:
        raise typer.Exit(common.REFUSED)


def _partitions(
    topic: str | None, partition: int | None, every: bool, path: Path | None
) -> list[PartitionId] | None:
    """The partitions that are named; None: all. Raises ConfigError unless they are named in one way."""
    if (topic is not None) + every + (path is not None) != 1:
        raise ConfigError(
            "--topic", topic, "exactly one of --topic, --all-topic-partitions, --path-to-json-file is needed"
        )
    if (topic is None) != (partition is None):
        raise ConfigError(
            "--partition", partition, "give --topic and --partition together, or --all-topic-partitions"
        )
    if path is not None:
        return _read(path)
    return None if topic is None or partition is None else [(topic, partition)]


def _read(path: Path) -> list[PartitionId]:
    from spark_ordered_kafka.json_texts import json_value

    form = '{"partitions": [{"topic": "orders", "partition": 1}]} is needed'
    try:
        body = json_value(path.read_bytes())
        tps = [(row["topic"], row["partition"]) for row in body["partitions"]]
    except OSError as error:
        raise ConfigError("--path-to-json-file", str(path), f"it cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError("--path-to-json-file", str(path), f"{form} ({error!r})") from None
    for name, number in tps:
        if not isinstance(name, str) or type(number) is not int or not 0 <= number < 2**31:
            raise ConfigError("--path-to-json-file", str(path), f"{form}, not {name!r} and {number!r}")
    if not tps:
        raise ConfigError("--path-to-json-file", str(path), f"it names no partition: {form}")
    return list(dict.fromkeys(tps))


def _print(found: Elections, kind: ElectionKind, output: common.OutputFormat) -> None:
    for (topic, partition), error in sorted(found.failed.items()):
        typer.echo(f"error: {topic}-{partition}: {error}", err=True)
    if output.is_data:
        rows = (
            [(tp, "elected", None) for tp in found.elected]
            + [(tp, "not needed", None) for tp in found.unneeded]
            + [(tp, "failed", str(error)) for tp, error in found.failed.items()]
        )
        shown = [
            {"topic": topic, "partition": partition, "result": result, "error": error}
            for (topic, partition), result, error in sorted(rows, key=lambda row: row[0])
        ]
        common.print_data({"partitions": shown}, output)
        return
    if found.elected:
        typer.echo(f"elected ({kind.value}): {_names(found.elected)}")
    if found.unneeded:
        typer.echo(f"led by the right replica already: {_names(found.unneeded)}")
    if not (found.elected or found.unneeded or found.failed):
        typer.echo("all partitions are led by the right replica already")


def _names(tps: Sequence[PartitionId]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in tps)
