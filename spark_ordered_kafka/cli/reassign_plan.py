"""``ordered-kafka reassign plan``: prints what ``kafka-reassign-partitions --generate`` does, for other goals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
from spark_ordered_kafka.cli.units import shown_bytes
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import ReassignmentPlan, ReassignmentPlanRequest

_MAX_REPLICAS = 32767
_FURTHER = ("--fix-racks", "--balance", "--balance-leaders")
_OF_LOG_DIRS = ("--empty-log-dir", "--balance-log-dirs")
_Fields = dict[str, Any]


def plan(
    drain: Annotated[
        str | None,
        typer.Option(metavar="ID,ID,...", help="Move everything off these brokers; they may be down."),
    ] = None,
    spread_onto: Annotated[
        str | None, typer.Option(metavar="ID,ID,...", help="Give these brokers a fair share of the replicas.")
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Even out replicas, bytes and preferred leaders.")
    ] = False,
    brokers: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID,...", help="With --balance or --balance-leaders: these alone.", show_default="all"
        ),
    ] = None,
    fix_racks: Annotated[
        bool, typer.Option("--fix-racks", help="Spread partitions over more racks where there are more.")
    ] = False,
    replication_factor: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=_MAX_REPLICAS, help="Give partitions N replicas.")
    ] = None,
    empty_log_dir: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID:PATH",
            help="Move everything out of a broker's log directory; again for another one of it.",
        ),
    ] = None,
    balance_log_dirs: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID,...", help="Even out the bytes of the log directories of each of these brokers."
        ),
    ] = None,
    balance_leaders: Annotated[
        bool, typer.Option("--balance-leaders", help="Even out preferred leaders; no replica moves.")
    ] = False,
    replace_replicas: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID,...", help="Move to other brokers what these have in no online log directory."
        ),
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option(metavar="TOPIC,TOPIC,...", help="Look at these topics alone.", show_default="all"),
    ] = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Propose what to reassign for a goal, moving as little as possible; nothing is changed.

    --fix-racks, --balance and --balance-leaders go with any other goal but those of log directories: the plan reaches them
    after it, as in --drain 3 --fix-racks --balance.

    The proposed configuration is for reassign execute, or for kafka-reassign-partitions. A summary of the moves goes to
    stderr. With --output json, stdout gets the plan alone.
    """
    goals = {
        # The first that is given is the goal; those after it are further ones.
        "--drain": _ids("drain", "--drain", drain),
        "--spread-onto": _ids("spread", "--spread-onto", spread_onto),
        "--replication-factor": _factor(replication_factor),
        "--replace-replicas": _ids("replace_replicas", "--replace-replicas", replace_replicas),
        "--empty-log-dir": _log_dirs(empty_log_dir or []),
        "--balance-log-dirs": _ids("balance_log_dirs", "--balance-log-dirs", balance_log_dirs),
        "--fix-racks": {"goal": "racks"} if fix_racks else None,
        "--balance": {"goal": "balance"} if balance else None,
        "--balance-leaders": {"goal": "leaders"} if balance_leaders else None,
    }
    request = _request(goals, brokers, topics)
    with common.connected(controller, command_config=command_config) as client:
        _show(client.plan_reassignment(request), output)


def _request(
    goals: Mapping[str, _Fields | None], brokers: str | None, topics: str | None
) -> ReassignmentPlanRequest:
    """Raises ConfigError unless there is a goal, and the further ones and other options go with it."""
    from spark_ordered_kafka.client.schemas import ReassignmentPlanRequest

    given = [option for option, fields in goals.items() if fields is not None]
    if not given:
        raise ConfigError("the goal", None, f"give one of {', '.join(goals)}")
    further = [option for option in given[1:] if option in _FURTHER]
    if given[1:] != further or (further and given[0] in _OF_LOG_DIRS):
        hint = f"give one of them; {', '.join(_FURTHER)} go with any but those of log directories"
        raise ConfigError("the goal", " and ".join(given), hint)
    fields = dict(goals[given[0]] or {})
    if further:
        fields["also"] = [(goals[option] or {})["goal"] for option in further]
    if brokers is not None:
        if given[0] not in ("--balance", "--balance-leaders"):
            hint = f"it goes with --balance or --balance-leaders, not with {given[0]}"
            raise ConfigError("--brokers", brokers, hint)
        fields["brokers"] = _named("--brokers", brokers)
    if topics is not None:
        fields["topics"] = parse_texts(topics)
        if not fields["topics"]:
            raise ConfigError("--topics", topics, "name one topic at least, or leave it out")
    return ReassignmentPlanRequest(**fields)


def _ids(goal: str, option: str, value: str | None) -> _Fields | None:
    return None if value is None else {"goal": goal, "brokers": _named(option, value)}


def _named(option: str, value: str) -> list[int]:
    ids = parse_ids(option, value)
    if not ids:
        raise ConfigError(option, value, "name the id of one broker at least")
    return ids


def _factor(value: int | None) -> _Fields | None:
    return None if value is None else {"goal": "replication_factor", "replication_factor": value}


def _log_dirs(values: list[str]) -> _Fields | None:
    """Log directories of one broker; raises ConfigError for what is no ``ID:PATH``."""
    if not values:
        return None
    brokers, paths = set(), []
    for value in values:
        broker, separator, path = value.partition(":")
        if not separator or not path.startswith("/"):
            raise ConfigError(
                "--empty-log-dir", value, "ID:PATH is needed, as 1:/data/kafka, with an absolute path"
            )
        brokers.update(_named("--empty-log-dir", broker))
        paths.append(path)
    if len(brokers) != 1:
        raise ConfigError("--empty-log-dir", " ".join(values), "name log directories of one broker")
    return {"goal": "empty_log_dirs", "brokers": sorted(brokers), "log_dirs": paths}


def _show(found: ReassignmentPlan, output: common.OutputFormat) -> None:
    import json

    from spark_ordered_kafka.cli.reassign_texts import assignment

    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if output is common.OutputFormat.YAML:
        common.print_data(json.loads(assignment(found.partitions)), output)
    elif output.is_data:
        typer.echo(assignment(found.partitions))
    elif found.partitions:
        typer.echo(f"Current partition replica assignment\n{assignment(found.current.partitions)}\n")
        typer.echo(f"Proposed partition reassignment configuration\n{assignment(found.partitions)}")
    if not found.partitions:
        typer.echo("Nothing is to be done: all is as asked.", err=output.is_data)
        return
    size = "an unknown number of bytes" if found.bytes_to_move < 0 else shown_bytes(found.bytes_to_move)
    typer.echo(
        f"{_counted(len(found.partitions), 'partition')} to reassign: {_counted(found.replicas_to_move, 'replica')} to copy "
        f"({size}), {_counted(found.leaders_to_move, 'preferred leader')} to change",
        err=True,
    )
    columns = ("BROKER", "REPLICAS", "AFTER", "PREFERRED LEADER OF", "AFTER", "BYTES", "AFTER")
    rows = [
        (
            *(row.broker, row.before.replicas, row.after.replicas, row.before.leaders, row.after.leaders),
            *(shown_bytes(row.before.bytes), shown_bytes(row.after.bytes)),
        )
        for row in found.brokers
    ]
    common.print_table(columns, rows, err=True)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
