"""The command line, ``ordered-kafka``: the only place that prints or exits."""

from __future__ import annotations

from spark_ordered_kafka.cli.grouping import command_group

app = command_group("ordered-kafka")


@app.callback()
def ordered_kafka() -> None:
    """The options of all commands: none."""


def main() -> None:
    """Entry point of the ``ordered-kafka`` command."""
    app()
