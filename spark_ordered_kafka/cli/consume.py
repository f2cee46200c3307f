"""``ordered-kafka consume``: records on stdout, as ``kafka-console-consumer`` prints them, in order by OrderedConsumer."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, cast

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_group, complete_topic
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, client_conf
from spark_ordered_kafka.errors import ConfigError, ErrorCode
from spark_ordered_kafka.signals import handled

if TYPE_CHECKING:
    from confluent_kafka import Message

    from spark_ordered_kafka.cli.record_lines import Shown, Writer
    from spark_ordered_kafka.client.consumer import OrderedConsumer

app = command_group("consume")
_BATCH = 500
_ROUND = 0.5
_TIMESTAMPS = ("", "CreateTime", "LogAppendTime")


@app.command()
def consume(
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Name of the topic; may be repeated.",
            autocompletion=complete_topic,
        ),
    ],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="GROUP",
            autocompletion=complete_group,
            help="Consumer group, which continues where it stopped.",
            show_default="one that is deleted at the end",
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="A group that has committed nothing begins at the first record, not at the end.",
        ),
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="End after so many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(metavar="MS", min=1, help="End when no record comes for so long.")
    ] = None,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print keys before values.")] = False,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Between the parts of a line.", show_default="a tab")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help=r"Print records so, as rpk does: '%k=%v\n'. %t topic, %p partition, %o offset, %d timestamp, %k key, "
            "%v value, %h headers, %K and %V lengths.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="How to print; may be repeated: print.key, print.value, print.timestamp, print.partition, print.offset, "
            "print.headers, key.separator, line.separator, headers.separator, null.literal.",
        ),
    ] = None,
    consumer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer-property", metavar="NAME=VALUE", help="Property of the consumer; may be repeated."
        ),
    ] = None,
    bootstrap_server: BootstrapServerOption = None,
    controller: common.ControllerOption = None,
    command_config: KafkaConfigOption = None,
) -> None:
    """Print the records of topics under management, every key in order, until Ctrl-C or SIGTERM.

    Several of these with one --group share the partitions. Offsets are committed of what is printed.
    """
    write = _writer(format_, properties, print_key, key_separator)
    more = common.parse_options("--consumer-property", consumer_property or [], "fetch.min.bytes=1")
    if "group.id" in more:
        raise ConfigError("--consumer-property", f"group.id={more['group.id']}", "give --group instead")
    conf = client_conf(bootstrap_server, controller, command_config) | more
    _set_reset(conf, from_beginning)
    with common.ended_by_signals(), _group(group, conf) as name:
        from spark_ordered_kafka.client.consumer import OrderedConsumer

        with OrderedConsumer(conf | {"group.id": name}) as consumer:
            consumer.subscribe(list(dict.fromkeys(topic)))
            count = _print_all(consumer, write, max_messages, timeout_ms)
    typer.echo(f"processed a total of {count} messages", err=True)


def _set_reset(conf: dict[str, str], from_beginning: bool) -> None:
    """Begin where the options say; raises ConfigError, as Kafka's console consumer, where they contradict each other."""
    from spark_ordered_kafka.client.options import RESETS

    reset = conf.setdefault("auto.offset.reset", "earliest" if from_beginning else "latest")
    # What is no value at all is refused with the other properties.
    if from_beginning and RESETS.get(reset.strip().lower(), "earliest") != "earliest":
        raise ConfigError("--from-beginning", True, f"auto.offset.reset is {reset!r}: give one of the two")


def _writer(
    text: str | None, properties: list[str] | None, print_key: bool, key_separator: str | None
) -> Writer:
    from spark_ordered_kafka.cli.record_lines import format_writer, line_writer

    given = common.parse_options("--property", properties or [], "print.key=true")
    if text is None:
        return line_writer(given, print_key=print_key, key_separator=key_separator)
    if given or print_key or key_separator is not None:
        raise ConfigError(
            "--format",
            text,
            "cannot be combined with --property, --print-key and --key-separator: it says all",
        )
    return format_writer(text)


@contextmanager
def _group(group: str | None, conf: Mapping[str, str]) -> Iterator[str]:
    """The group's name; one that was made up is deleted at the end."""
    if group is not None:
        yield group
        return
    name = f"ordered-kafka-consume-{uuid.uuid4().hex[:12]}"
    try:
        yield name
    finally:
        _delete(name, conf)


def _delete(group: str, conf: Mapping[str, str]) -> None:
    from spark_ordered_kafka.client.group_admin import GroupAdmin
    from spark_ordered_kafka.client.options import consumer_options

    failed = GroupAdmin(consumer_options({**conf, "group.id": group}).connection.kafka).delete([group])
    for error in failed.values():
        # There is none where nothing was committed.
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            typer.echo(f"warning: group {group} is left: {error}", err=True)


@contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the batch in hand is printed first, for its records count as delivered. A second one aborts.

    What else ends a process does the same.
    """
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        if pressed:
            # While an exception is on its way the consumer commits nothing.
            raise typer.Abort
        pressed = True

    # Ignored where a shell has started the command in the background.
    here = threading.current_thread() is threading.main_thread()
    every = (signal.SIGINT, *common.ENDING) if here else ()
    with handled([one for one in every if signal.getsignal(one) is signal.default_int_handler], note):
        yield lambda: pressed


def _print_all(consumer: OrderedConsumer, write: Writer, most: int | None, timeout_ms: int | None) -> int:
    """Print records until one of the limits, or Ctrl-C; how many."""
    out, count = typer.get_binary_stream("stdout"), 0
    patience = None if timeout_ms is None else timeout_ms / 1000
    deadline = None if patience is None else time.monotonic() + patience
    with _interrupted() as is_interrupted:
        while (most is None or count < most) and not is_interrupted():
            left = _ROUND if deadline is None else min(_ROUND, deadline - time.monotonic())
            messages = consumer.consume(_BATCH if most is None else min(_BATCH, most - count), max(left, 0.0))
            for message in messages:
                out.write(write(_shown(message)))
            out.flush()
            count += len(messages)
            if patience is None or deadline is None:
                continue
            if messages:
                deadline = time.monotonic() + patience
            elif time.monotonic() >= deadline:
                break
    return count


def _shown(message: Message) -> Shown:
    from spark_ordered_kafka.cli.record_lines import Shown

    kind, millis = message.timestamp()
    return Shown(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        (_TIMESTAMPS[kind], millis),
        message.key(),
        message.value(),
        cast("list[tuple[str, bytes | None]]", message.headers() or []),
    )
