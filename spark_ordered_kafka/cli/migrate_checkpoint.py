"""``ordered-kafka migrate-checkpoint``: from Spark's own ``kafka`` source to ``ordered-kafka``, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.command_config import address, given_properties
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, broker_address
from spark_ordered_kafka.credentials import URL
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.spark.checkpoint import Checkpoint
    from spark_ordered_kafka.spark.files import Files
    from spark_ordered_kafka.spark.migration import Plan
    from spark_ordered_kafka.spark.options import SourceOptions

app = command_group("migrate-checkpoint")
_FROM, _TO = "--from", "--to"
_CONF_EXAMPLE = "spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0"


@app.command()
def migrate_checkpoint(
    old: Annotated[
        str,
        typer.Option(
            _FROM,
            metavar="DIR|URI",
            help="Checkpoint of the query, which is stopped. It stays as it is. URIs such as hdfs://, s3a:// and "
            "abfss:// are reached through Spark.",
        ),
    ],
    new: Annotated[
        str, typer.Option(_TO, metavar="DIR|URI", help="Directory of the new checkpoint, absent or empty.")
    ],
    bootstrap_server: BootstrapServerOption = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Option kafka.* of the source; may be repeated."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="NAME=VALUE",
            help="Configuration of the Spark that reaches URIs, as of spark-submit; may be repeated.",
        ),
    ] = None,
    source: Annotated[
        list[int] | None,
        typer.Option(
            "--source",
            metavar="N",
            help="Source of the query to change, from 0; may be repeated.",
            show_default="all of the one format",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Go back to kafka though not all earlier layouts are read: keys lose their order."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
) -> None:
    """Continue a query of Spark's kafka format with the ordered one, or the other way round.

    Writes a new checkpoint with the same batch numbers, query id and keyed state. Start only one of the two queries.
    """
    # Of an extra, which may not be installed.
    from spark_ordered_kafka.spark.checkpoint import read_checkpoint
    from spark_ordered_kafka.spark.files import located
    from spark_ordered_kafka.spark.migration import Planner, sources_of

    spark_conf = common.parse_options("--conf", conf or [], _CONF_EXAMPLE)
    with located({_FROM: old, _TO: new}, spark_conf) as (files, (directory, target)):
        checkpoint = read_checkpoint(_FROM, files, directory)
        to_format, sources = sources_of(_FROM, checkpoint, source or ())
        if _is_done(files, checkpoint, target, to_format):
            return
        topics = sorted(set().union(*sources.values()))
        options = _source_options(bootstrap_server, controller, command_config, option or [], topics)
        planner = Planner(options, force=force)
        try:
            plan = planner.plan(checkpoint, to_format, sources)
        finally:
            planner.close()
        _show(checkpoint, plan)
        if dry_run:
            return
        if not yes:
            typer.confirm(f"Write {target}? The query must be stopped.", abort=True, err=True)
        _write(files, checkpoint, target, plan)
        _show_next(plan)


def _write(files: Files, checkpoint: Checkpoint, target: str, plan: Plan) -> None:
    from spark_ordered_kafka.spark.checkpoint import SOURCE, write_checkpoint

    note = {
        "version": 1,
        SOURCE: checkpoint.directory,
        "batch": checkpoint.last.number,
        "to_format": plan.to_format,
        "sources": list(plan.sources),
    }
    try:
        write_checkpoint(_FROM, files, checkpoint, target, plan.batches, plan.sources, note)
    except OSError as error:
        raise ConfigError(_TO, target, f"it was not written: {error}") from error
    typer.echo(f"wrote {target}")


def _source_options(
    servers: str | None, controller: str | None, path: Path | None, pairs: list[str], topics: list[str]
) -> SourceOptions:
    from spark_ordered_kafka.spark.options import stream_options

    own, kafka = given_properties(path, controller, servers)
    brokers = broker_address(servers, kafka)["bootstrap.servers"]
    given = own | common.parse_options("--option", pairs, "kafka.security.protocol=SASL_SSL")
    given[URL] = address("--controller", controller, URL, given)
    return stream_options(given | {"kafka.bootstrap.servers": brokers, "subscribe": ",".join(topics)})


def _is_done(files: Files, checkpoint: Checkpoint, target: str, to_format: str) -> bool:
    """Whether the new checkpoint is there, which is said. Raises ConfigError for a directory that has something else."""
    from spark_ordered_kafka.spark.checkpoint import SOURCE, foreign, is_free, last_batch, read_note

    mine, its = (f"{one.rstrip('/')}/" for one in (checkpoint.directory, target))
    if mine.startswith(its) or its.startswith(mine):
        raise ConfigError(_TO, target, f"it must be neither {_FROM} nor a part of it, nor have it as a part")
    try:
        if is_free(files, target):
            if (why := foreign(files, target, checkpoint.directory)) is not None:
                raise ConfigError(_TO, target, why)
            return False
        note: dict[str, Any] = read_note(files, target) or {}
        same = (note.get(SOURCE), note.get("batch"), note.get("to_format"))
        if same != (checkpoint.directory, checkpoint.last.number, to_format):
            raise ConfigError(_TO, target, "it is not empty: an absent or empty directory is needed")
        reached = last_batch(files, target)
    except OSError as error:
        raise ConfigError(_TO, target, f"it cannot be read: {error}") from error
    reached_since = "" if reached == checkpoint.last.number else f"; its query has reached batch {reached}"
    typer.echo(
        f"nothing to do: {target} is this checkpoint for {to_format}, as of batch {note['batch']}{reached_since}"
    )
    return True


def _show(checkpoint: Checkpoint, plan: Plan) -> None:
    state = ", with keyed state" if checkpoint.stateful else ""
    typer.echo(f"checkpoint {checkpoint.directory}")
    typer.echo(f"batch {checkpoint.last.number}, committed{state}")
    for source in plan.sources:
        typer.echo(f"source {source} of {len(checkpoint.last.offsets)} becomes {plan.to_format}")
    rows = [(one.topic, len(one.positions), one.layout_epoch, one.unread) for one in plan.topics]
    common.print_table(("TOPIC", "PARTITIONS", "EPOCH", "OFFSETS UNREAD"), rows)
    caveats = list(dict.fromkeys(line for one in plan.topics for line in one.caveats))
    if not caveats:
        typer.echo("order: from here on every key is read in the order of writing")
    else:
        typer.echo("order: from here on every key is read in the order of writing, but for these:")
    for line in caveats:
        typer.echo(f"  {line}")


def _show_next(plan: Plan) -> None:
    from spark_ordered_kafka.spark.migration import ORDERED

    if plan.to_format == ORDERED:
        typer.echo('next: start the query with format("ordered-kafka"), controller.url and the')
        typer.echo("new checkpointLocation. Never start the old one beside it")
        return
    typer.echo('next: start the query with format("kafka"), the new checkpointLocation and')
    typer.echo("kafka.isolation.level=read_committed. Never start the old one beside it, and")
    typer.echo("change no partition count any more: that would break the order of keys")
