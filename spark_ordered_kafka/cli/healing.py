"""``ordered-kafka healing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.units import shown_bytes, shown_rate, shown_time
from spark_ordered_kafka.parsing import printable

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import HealingBroker, HealingDecision, HealingView

app = command_group("healing")
_DECISIONS = 5


@app.callback()
def healing() -> None:
    """Show self-healing."""


@app.command()
def status(
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Brokers, what is not as it should be, what is proposed, and the latest decisions."""
    with common.connected(controller, command_config=command_config) as client:
        found = client.healing()
    if output.is_data:
        common.print_body(found, output)
        return
    if found.mode == "off":
        typer.echo('self-healing is off: set healing.mode = "observe" in the controllers\' configuration')
        return
    _show(found)


def _show(found: HealingView) -> None:
    budget = f"{found.requests_in_last_day} of {found.requests_per_day} requests in the last 24 hours"
    typer.echo(f"mode {found.mode}; {budget}")
    if found.brokers:
        typer.echo()
        columns = ("BROKER", "STATE", "REPLICAS", "LEADERS", "PREFERRED", "WRITTEN", "USED", "FREE")
        common.print_table(columns, [_cells(row) for row in found.brokers])
    else:
        typer.echo("this controller has not looked at the cluster: the leader does")
    if not found.findings:
        typer.echo("\nnothing is found" if found.brokers else "\nnothing was found by the last leader")
    for finding in found.findings:
        what = f"{finding.kind} {finding.subject}".strip()
        typer.echo(f"\n{what}, since {shown_time(finding.since)}")
        if finding.reason:
            typer.echo(f"  {printable(finding.reason)}")
    for proposal in found.proposals:
        typer.echo(f"\nproposal: {_action(proposal.action, proposal.brokers)}{_held(proposal.held_by)}")
        typer.echo(f"  {printable(proposal.reason)}")
    for decision in found.history[:_DECISIONS]:
        typer.echo(f"\n{shown_time(decision.at)}: {_decision(decision)}")


def _cells(row: HealingBroker) -> tuple[object, ...]:
    dirs = row.log_dirs or []
    known = [one.free_bytes for one in dirs if one.online and one.free_bytes is not None]
    state = "away" if not row.alive else "ok" if all(one.online for one in dirs) else "log dir offline"
    if row.alive and row.log_dirs is None:
        state = "no answer"
    used = None if row.log_dirs is None else shown_bytes(sum(one.used_bytes for one in dirs))
    rate = None if row.write_rate is None else shown_rate(row.write_rate)
    free = shown_bytes(min(known)) if known else None
    return row.broker, state, row.hosted, row.leaders, row.preferred, rate, used, free


def _action(action: str, brokers: list[int]) -> str:
    return f"{action} {','.join(map(str, brokers))}".strip()


def _held(rule: str | None) -> str:
    return "" if rule is None else f" (held: {rule})"


def _decision(one: HealingDecision) -> str:
    more = ""
    if one.partitions:
        size = (
            ""
            if one.bytes_to_move is None or one.bytes_to_move < 0
            else f", {shown_bytes(one.bytes_to_move)}"
        )
        more = f", {one.partitions} partition{'' if one.partitions == 1 else 's'}{size}"
    if one.request_id is not None:
        more = f"{more}, reassignment {one.request_id}"
    return f"{_action(one.action, one.brokers)}: {one.outcome}{_held(one.held_by)}{more}"
