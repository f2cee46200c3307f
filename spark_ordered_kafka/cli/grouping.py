"""Groups of commands: imported when they are called, and with help that is whole on any width of terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_NO_WRAP = 10_000
_ROOT = "ordered-kafka"
# What a group, or a command that is in none, is for, in the order in which they are listed. Each is the ``app`` of a module of
# this name: their imports take a second, which `ordered-kafka --help` and every other command need not pay (D-215).
_ABOUT = {
    "controller": "Run a controller, and show those that run.",
    "topics": "List and show topics; create and change those under management.",
    "brokers": "Show the brokers, limit what they host, and configure them.",
    "reassign": "Move partitions between brokers and log directories, and watch them move.",
    "leaders": "Elect leaders of partitions.",
    "log-dirs": "Show log directories of brokers, and move replicas between those of a broker.",
    "replica-status": "How many records replicas are behind their leaders, and as of when.",
    "groups": "List consumer groups, show how far they have read, reset their offsets, delete them.",
    "produce": "Write each line of stdin as a record to a topic under management, in order.",
    "consume": "Print the records of topics under management, every key in order, until Ctrl-C or SIGTERM.",
    "doctor": "Check versions, controllers, clocks, ZooKeeper, rights, brokers, partitions, writers, transactions and groups.",
    "reviews": "Decide about requests that wait for a second principal (review.required).",
    "autoscale": "Show automatic partition counts, simulate them, and see them at work.",
    "healing": "Show what self-healing finds, proposes and has done.",
    "profile": "Name the connections to several clusters, and choose one.",
    "migrate-checkpoint": "Continue a query of Spark's kafka format with the ordered one, or the other way round.",
    "local": "Run real ZooKeeper, Apache Kafka and a controller on this machine.",
    "demo": "Stream 500,000 records between two topics that grow and shrink meanwhile, and check every one.",
}


class _Commands(TyperGroup):
    """Lists its commands with their whole first sentence, wrapped where it is long."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; Click's own cuts sentences to a line."""
        with formatter.section("Commands"):
            formatter.write_dl(self.rows(ctx))

    def rows(self, ctx: Any) -> list[tuple[str, str]]:
        """Names and what they are for."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, command.get_short_help_str(_NO_WRAP))
            for name, command in commands
            if command is not None and not command.hidden
        ]


class _Imported(Mapping[str, Any]):
    """Commands by name; a command's module is imported on lookup."""

    def __getitem__(self, name: str) -> Any:
        if name not in _ABOUT:
            raise KeyError(name)
        # Here, since help of all commands needs none of it.
        from spark_ordered_kafka.cli.common import exit_on_error

        # Of an extra that is not installed.
        with exit_on_error():
            module = import_module(f"{__package__}.{name.replace('-', '_')}")
        return typer.main.get_command(module.app)

    def __iter__(self) -> Iterator[str]:
        return iter(_ABOUT)

    def __len__(self) -> int:
        return len(_ABOUT)


class _Root(_Commands):
    """The group of all."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Imported()

    def list_commands(self, ctx: Any) -> list[str]:
        """Names alone; Click's own method imports the commands."""
        return list(self.commands)

    def rows(self, ctx: Any) -> list[tuple[str, str]]:
        """Names and what they are for."""
        return list(_ABOUT.items())


class _Typer(typer.Typer):
    """Its commands end with the text and exit code of an error; those that connect to servers have ``--profile``."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Any], Any]:
        """As typer's."""
        register = super().command(*args, **settings)

        def registered(command: Any) -> Any:
            # Here, since help of all commands needs none of it.
            from spark_ordered_kafka.cli.common import exit_on_error
            from spark_ordered_kafka.cli.profile_store import with_profile

            register(with_profile(exit_on_error()(command)))
            return command

        return registered


def command_group(name: str) -> typer.Typer:
    """A group of commands, or one that is in none.

    Help is plain text: where the terminal is narrow, rich would cut the names of options and commands.
    """
    is_root = name == _ROOT
    return _Typer(
        name=name,
        cls=_Root if is_root else _Commands,
        help="Grow and shrink the partitions of Kafka topics while every key stays in order."
        if is_root
        else _ABOUT[name],
        add_completion=is_root,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
