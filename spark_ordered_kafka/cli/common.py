"""What the commands share: the controller's address, printing, and errors with their exit codes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from spark_ordered_kafka.cli.completion import complete_topic
from spark_ordered_kafka.errors import ConfigError, ErrorCode, OrderedKafkaError, RequestError, refusal
from spark_ordered_kafka.parsing import printable
from spark_ordered_kafka.signals import handled

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import Result

REFUSED, USAGE = 1, 2
# Windows has no SIGHUP.
ENDING: tuple[signal.Signals, ...] = (
    signal.SIGTERM,
    *(one for one in signal.Signals if one.name == "SIGHUP"),
)
"""What ends a process beside Ctrl-C: service managers, and a terminal that is closed."""

R = TypeVar("R", bound="Result")
_AnswerT = TypeVar("_AnswerT")
_AT_ONCE = 4


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        """Whether programs read it."""
        return self is not OutputFormat.TABLE


ControllerOption = Annotated[
    str | None,
    typer.Option(
        "--controller",
        envvar="ORDERED_KAFKA_CONTROLLER",
        metavar="URL[,URL...]",
        help="The controller's URL.",
        show_default="controller.url of --command-config",
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="ORDERED_KAFKA_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties of the connection to the controller: controller.username, controller.password, "
        "controller.token, controller.ssl.*",
    ),
]
TopicOption = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="Name of the topic.", autocompletion=complete_topic)
]
ExcludeInternalOption = Annotated[
    bool, typer.Option("--exclude-internal", help="Leave out Kafka's own topics.")
]
IfExistsOption = Annotated[
    bool, typer.Option("--if-exists", help="Do nothing, instead of failing, where there is no such topic.")
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the controller's audit log.")
]
ValidateOption = Annotated[bool, typer.Option("--validate-only", help="Only check the request.")]
OutputOption = Annotated[OutputFormat, typer.Option("--output", help="How to print the result on stdout.")]


@contextmanager
def connected(
    controller: str | None, reason: str | None = None, *, command_config: Path | None = None
) -> Iterator[ControllerClient]:
    """A client of the controller."""
    from spark_ordered_kafka.cli.command_config import connection
    from spark_ordered_kafka.client.controller import ControllerClient

    urls, credentials = connection(controller, command_config)
    with ControllerClient(urls, reason=reason, credentials=credentials) as client:
        yield client


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an error as one line on stderr and exit: 2 for wrong options, else 1."""
    try:
        yield
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE) from error
    except RequestError as error:
        typer.echo(f"error: {error.name}: {error.message}", err=True)
        raise typer.Exit(REFUSED) from error
    except OrderedKafkaError as error:
        named = "" if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else f"{error.name}: "
        typer.echo(f"error: {named}{error}", err=True)
        raise typer.Exit(REFUSED) from error


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let what ends a process end the block as Ctrl-C does, so that nothing is left behind.

    What is ignored, or handled otherwise, stays so.
    """
    here = threading.current_thread() is threading.main_thread()
    ours = [one for one in ENDING if here and signal.getsignal(one) is signal.SIG_DFL]
    with handled(ours, signal.default_int_handler):
        yield


@contextmanager
def new_directory(given: Path | None, prefix: str) -> Iterator[Path]:
    """The directory of ``--dir``, or without it a temporary one, whose name begins with ``prefix``."""
    if given is not None:
        yield given
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix=prefix) as temporary:
        yield Path(temporary)


def raise_if_refused(result: Result) -> None:
    """Raises RequestError for a result that is not NONE."""
    if result.error_code != ErrorCode.NONE:
        raise refusal(result.error_code, result.error, result.error_message)


def print_body(body: BaseModel, output: OutputFormat) -> None:
    """The API's answer as it is, as JSON or YAML."""
    if output is OutputFormat.YAML:
        print_data(body.model_dump(mode="json"), output)
    else:
        typer.echo(body.model_dump_json(indent=2))


def print_data(data: object, output: OutputFormat) -> None:
    """Lists and mappings of plain values, as JSON or YAML."""
    if output is OutputFormat.YAML:
        import yaml  # type: ignore[import-untyped]
        from pydantic_core import to_jsonable_python

        # The safe dumper knows no subclasses of str.
        plain = to_jsonable_python(data)
        text = yaml.safe_dump(plain, default_flow_style=False, sort_keys=False, allow_unicode=True)
        typer.echo(text, nl=False)
    else:
        import json

        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def report(body: BaseModel, line: str, output: OutputFormat) -> None:
    """The API's answer, or ``line`` about it."""
    if output.is_data:
        print_body(body, output)
    else:
        typer.echo(line)


def print_rows(
    body: BaseModel, columns: Sequence[str], rows: Iterable[Sequence[object]], output: OutputFormat
) -> None:
    """The API's answer, or ``rows`` of it in a table."""
    if output.is_data:
        print_body(body, output)
    else:
        print_table(columns, rows)


def print_errors(results: Iterable[R], what: Callable[[R], str]) -> list[R]:
    """The errors of results that are not NONE, on stderr after ``what`` each is about; returns these results."""
    failed = [row for row in results if row.error_code != ErrorCode.NONE]
    for row in failed:
        typer.echo(f"error: {what(row)}{row.error}: {row.error_message}", err=True)
    return failed


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, err: bool = False) -> None:
    """Rows in columns, without lines around them; ``err``: to stderr.

    A terminal that is too narrow wraps cells; other outputs get long lines.
    """
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(*[Column(name, overflow="fold") for name in columns], box=None, pad_edge=False)
    for row in rows:
        # As text, for names of groups may hold what rich takes for markup, or a terminal for commands.
        table.add_row(*[Text("-" if cell is None else printable(str(cell))) for cell in row])
    console = Console(stderr=err)
    if not console.is_terminal:
        console = Console(stderr=err, width=10_000)
    console.print(table)


def at_once(ask: Callable[[str], _AnswerT], names: Sequence[str]) -> list[_AnswerT]:
    """The answer about each name, four of them at a time: most of a question's time is its way there and back.

    Raises what the first one raises that has no answer. Ctrl-C leaves questions alone, which a pool of threads, and the end of
    a process that has one, would wait for.
    """
    answers: list[Future[_AnswerT]] = [Future() for _ in names]
    left = iter(list(zip(names, answers, strict=True)))

    def work() -> None:
        for name, answer in left:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(ask(name))
                except BaseException as error:  # noqa: BLE001 - raised by the caller
                    answer.set_exception(error)

    for _ in range(min(_AT_ONCE, len(answers))):
        threading.Thread(target=work, name="asking", daemon=True).start()
    try:
        return [answer.result() for answer in answers]
    finally:
        for answer in answers:
            answer.cancel()


def parse_configs(pairs: list[str]) -> dict[str, str]:
    """:func:`parse_options` of ``--config``."""
    return parse_options("--config", pairs, "retention.ms=60000")


def parse_options(option: str, pairs: list[str], example: str) -> dict[str, str]:
    """``NAME=VALUE`` of an option that may be repeated; raises ConfigError for one that is not of that form, or given twice."""
    configs: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigError(option, pair, f"NAME=VALUE is needed, for example {example}")
        if configs.setdefault(name, value) != value:
            raise ConfigError(option, pair, f"{name} was given before with another value")
    return configs
