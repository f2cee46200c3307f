"""The command line, ``ordered-kafka``: the only place that prints or exits."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import typer

from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.version import __version__

# Of standard output, too, which may be a file.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
app = command_group("ordered-kafka")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ordered-kafka {__version__}")
        raise typer.Exit


@app.callback()
def ordered_kafka(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """The options of all commands."""


def main() -> None:
    """Entry point of the ``ordered-kafka`` command."""
    try:
        app()
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        sys.exit(f"error: {error}")
