"""``ordered-kafka log-dirs move`` and ``verify``: replicas that go from one log directory of a broker to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.reassign_options import LogDirsThrottleOption, NoWaitOption, TimeoutOption
from spark_ordered_kafka.errors import ConfigError, ErrorCode

if TYPE_CHECKING:
    from spark_ordered_kafka.cli.log_dir_placements import Placement
    from spark_ordered_kafka.client.schemas import ReplicaLogDir, ReplicaLogDirsResult

_JSON_FILE = "--replica-log-dirs-json-file"
_COLUMNS = ("TOPIC", "PARTITION", "BROKER", "LOG DIR", "STATUS")

TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Topic of the replica.", show_default=False)
]
PartitionOption = Annotated[
    int | None,
    typer.Option("--partition", metavar="N", min=0, max=2**31 - 1, help="Its partition.", show_default=False),
]
BrokerOption = Annotated[
    int | None,
    typer.Option(
        "--broker", metavar="ID", min=0, max=2**31 - 1, help="The broker it is on.", show_default=False
    ),
]
LogDirOption = Annotated[
    str | None,
    typer.Option(
        "--log-dir", metavar="PATH", help="The log directory it is to be in, absolute.", show_default=False
    ),
]
JsonFileOption = Annotated[
    typer.FileBinaryRead | None,
    typer.Option(
        _JSON_FILE,
        metavar="FILE",
        help='Many replicas instead: {"replicas": [{"topic", "partition", "broker", "log_dir"}, ...]}; - reads stdin.',
        show_default=False,
    ),
]


def move(
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: BrokerOption = None,
    log_dir: LogDirOption = None,
    replica_log_dirs_json_file: JsonFileOption = None,
    replica_alter_log_dirs_throttle: LogDirsThrottleOption = None,
    timeout: TimeoutOption = None,
    no_wait: NoWaitOption = False,
    validate_only: common.ValidateOption = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Move replicas to other log directories of their brokers, and show how far they are: all, or none if one is refused.

    They are a request of ordered-kafka reassign: reassign status shows it, reassign cancel takes it back. Naming the directory
    in which a replica already is cancels a running move of it alone. Ctrl-C stops watching; the moves continue.
    """
    from spark_ordered_kafka.cli.log_dir_placements import placements
    from spark_ordered_kafka.cli.reassign_outcomes import failures, followed
    from spark_ordered_kafka.client.schemas import ReplicaLogDirsRequest

    with common.connected(controller, reason, command_config=command_config) as client:
        rows = _replicas(topic, partition, broker, log_dir, replica_log_dirs_json_file)
        request = ReplicaLogDirsRequest(
            replicas=rows,
            replica_alter_log_dirs_throttle=replica_alter_log_dirs_throttle,
            validate_only=validate_only,
            timeout_ms=timeout,
        )
        answer = client.alter_replica_log_dirs(request)
        for warning in answer.warnings:
            typer.echo(f"warning: {warning}", err=True)
        failed = _report_refused(answer)
        if failed or validate_only or no_wait:
            done = "could be moved" if validate_only else "is being moved"
            if output.is_data:
                common.print_body(answer, output)
            else:
                for row, outcome in zip(rows, answer.replicas, strict=True):
                    if outcome.error_code == ErrorCode.NONE:
                        typer.echo(f"{_shown(row)} {done} to {row.log_dir}")
                if answer.request_id is not None:
                    typer.echo(f"Request id: {answer.request_id}")
            if failed:
                raise typer.Exit(common.REFUSED)
            return
        if answer.request_id is not None:  # otherwise they are in place already
            for line in failures(followed(client, answer.request_id)):
                typer.echo(f"error: {line}", err=True)
        found = placements(client, rows)
    _report(found, output)


def verify(
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: BrokerOption = None,
    log_dir: LogDirOption = None,
    replica_log_dirs_json_file: JsonFileOption = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Whether replicas are in the log directories that are named: 0 if all are, else 1."""
    from spark_ordered_kafka.cli.log_dir_placements import placements

    with common.connected(controller, command_config=command_config) as client:
        rows = _replicas(topic, partition, broker, log_dir, replica_log_dirs_json_file)
        found = placements(client, rows)
    _report(found, output)


def _replicas(
    topic: str | None,
    partition: int | None,
    broker: int | None,
    log_dir: str | None,
    file: typer.FileBinaryRead | None,
) -> list[ReplicaLogDir]:
    """The replicas that the options name. Raises ConfigError when they do not name some in one way."""
    from spark_ordered_kafka.cli.reassign_files import read_replicas
    from spark_ordered_kafka.client.schemas import ReplicaLogDir

    options = {"--topic": topic, "--partition": partition, "--broker": broker, "--log-dir": log_dir}
    if file is not None:
        for option, value in options.items():
            if value is not None:
                raise ConfigError(option, value, f"leave it out with {_JSON_FILE}")
        rows = read_replicas(file, _JSON_FILE)
        if not rows:
            raise ConfigError(_JSON_FILE, getattr(file, "name", "-"), "replicas is empty")
        return rows
    if topic is None or partition is None or broker is None or log_dir is None:
        missing = next(option for option, value in options.items() if value is None)
        raise ConfigError(
            missing, None, f"give --topic, --partition, --broker and --log-dir, or {_JSON_FILE}"
        )
    return [ReplicaLogDir(topic=topic, partition=partition, broker=broker, log_dir=log_dir)]


def _report_refused(answer: ReplicaLogDirsResult) -> bool:
    """Print each reason once on stderr; whether there is any."""
    reasons = dict.fromkeys(
        f"error: {row.error}: {row.error_message}"
        for row in answer.replicas
        if row.error_code != ErrorCode.NONE
    )
    for reason in reasons:
        typer.echo(reason, err=True)
    return bool(reasons)


def _report(placements: Sequence[Placement], output: common.OutputFormat) -> None:
    """Print where the replicas are; exit with 1 unless all are where they are to be."""
    complete = all(one.status == "completed" for one in placements)
    if output.is_data:
        rows: list[dict[str, Any]] = [
            {**one.view.model_dump(mode="json"), "log_dir": one.wanted.log_dir, "status": one.status}
            for one in placements
        ]
        common.print_data({"complete": complete, "replicas": rows}, output)
    else:
        common.print_table(
            _COLUMNS,
            [
                (one.wanted.topic, one.wanted.partition, one.wanted.broker, one.wanted.log_dir, one.text)
                for one in placements
            ],
        )
    if not complete:
        raise typer.Exit(common.REFUSED)


def _shown(row: ReplicaLogDir) -> str:
    return f"replica {row.topic}-{row.partition} on broker {row.broker}"
