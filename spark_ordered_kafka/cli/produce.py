"""``ordered-kafka produce``: lines of stdin as records, as ``kafka-console-producer`` has them, in order by OrderedProducer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, client_conf
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from spark_ordered_kafka.cli.record_lines import Line, LineReader
    from spark_ordered_kafka.client.producer import OrderedProducer

app = command_group("produce")
_FULL_QUEUE = 1.0


@app.command()
def produce(
    topic: common.TopicOption,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Key of all records; lines are their values.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Lines are KEY, this and VALUE: as parse.key=true with this key.separator."
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="How to read lines; may be repeated: parse.key, key.separator, parse.headers, headers.delimiter, "
            "headers.separator, headers.key.separator, null.marker, ignore.error.",
        ),
    ] = None,
    producer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--producer-property",
            metavar="NAME=VALUE",
            help="Property of the producer, such as compression.type=zstd; may be repeated.",
        ),
    ] = None,
    bootstrap_server: BootstrapServerOption = None,
    controller: common.ControllerOption = None,
    command_config: KafkaConfigOption = None,
) -> None:
    r"""Write each line of stdin as a record to a topic under management, in order.

    Separators may have the escapes \t, \n, \0 and \x1f. Ends with the input; Ctrl-C and SIGTERM end it, too. What was read by
    then is written.
    """
    from spark_ordered_kafka.cli.record_lines import line_reader

    if key is not None and key_separator is not None:
        raise ConfigError("--key", key, "cannot be combined with --key-separator: lines have their keys then")
    reader = line_reader(
        common.parse_options("--property", properties or [], "parse.key=true"), key_separator
    )
    if key is not None and reader.key_separator is not None:
        raise ConfigError("--key", key, "cannot be combined with parse.key=true: lines have their keys then")
    more = common.parse_options("--producer-property", producer_property or [], "compression.type=zstd")
    conf = client_conf(bootstrap_server, controller, command_config) | more
    from spark_ordered_kafka.client.producer import OrderedProducer

    with common.ended_by_signals(), OrderedProducer(conf) as producer:
        count = _produce(producer, topic, _records(reader, key, typer.get_binary_stream("stdin")))
    typer.echo(f"wrote {count} records to {topic}", err=True)


def _records(reader: LineReader, key: str | None, lines: Iterable[bytes]) -> Iterator[Line]:
    from spark_ordered_kafka.cli.record_lines import typed_bytes

    fixed = None if key is None else typed_bytes(key)
    for number, line in enumerate(lines, 1):
        record = reader.read(number, line.removesuffix(b"\n").removesuffix(b"\r"))
        yield record if fixed is None else record._replace(key=fixed)


def _produce(producer: OrderedProducer, topic: str, records: Iterator[Line]) -> int:
    """Write all records; how many there were. Raises RequestError if one was given up."""
    count, failures = 0, list[str]()

    def note(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    with _written_before(producer):
        for record in records:
            count += 1
            _hand_over(producer, topic, record, note)
            producer.poll(0)
    if failures:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{len(failures)} of {count} records were not written; the first: {failures[0]}",
        )
    return count


def _hand_over(
    producer: OrderedProducer, topic: str, record: Line, note: Callable[[object, object], None]
) -> None:
    """Wait for room, and produce. A Ctrl-C meanwhile is raised behind the record, which is read; a second one at once."""
    pressed: KeyboardInterrupt | None = None
    while True:
        try:
            producer.produce(
                topic, record.value, record.key, headers=record.headers or None, on_delivery=note
            )
            break
        except BufferError:
            try:
                producer.poll(_FULL_QUEUE)
            except KeyboardInterrupt as error:
                if pressed is not None:
                    raise
                pressed = error
    if pressed is not None:
        raise pressed


@contextmanager
def _written_before(producer: OrderedProducer) -> Iterator[None]:
    """Write what was read before the end, before Ctrl-C, and before a line that is wrong."""
    try:
        yield
        producer.flush()
    except KeyboardInterrupt:
        # One that comes while the input has ended, too; a second one ends this.
        producer.flush()
    except ConfigError:
        producer.flush()
        raise
