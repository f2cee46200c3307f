"""The command line, ``ordered-kafka``: the only place that prints or exits."""

from __future__ import annotations

from spark_ordered_kafka.cli import (
    bench,
    brokers,
    controller,
    groups,
    local,
    log_dirs,
    reassign,
    reviews,
    topics,
)
from spark_ordered_kafka.cli.demo import demo
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.replica_status import replica_status

app = command_group(
    "Grow and shrink the partitions of Kafka topics while every key stays in order.", name="ordered-kafka"
)
app.add_typer(controller.app, name="controller")
app.add_typer(topics.app, name="topics")
app.add_typer(brokers.app, name="brokers")
app.add_typer(reassign.app, name="reassign")
app.add_typer(log_dirs.app, name="log-dirs")
app.command("replica-status")(replica_status)
app.add_typer(groups.app, name="groups")
app.add_typer(reviews.app, name="reviews")
app.add_typer(local.app, name="local")
app.add_typer(bench.app, name="bench")
app.command()(demo)


def main() -> None:
    """Entry point of the ``ordered-kafka`` command."""
    app()
