"""Groups of commands whose help is whole on any width of terminal."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

_WHOLE = 10_000


class _Commands(TyperGroup):
    """Lists its commands with their whole first sentence, which goes on in the next line where it is long."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; Click's own cuts sentences to a line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def command_group(about: str, *, name: str | None = None) -> typer.Typer:
    """A group of commands; ``about`` is its help.

    Help is plain text: where the terminal is narrow, rich would cut the names of options and commands.
    """
    return typer.Typer(
        name=name,
        cls=_Commands,
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
