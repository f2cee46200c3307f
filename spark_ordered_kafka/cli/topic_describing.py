"""``ordered-kafka topics describe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_topic
from spark_ordered_kafka.cli.topic_filters import (
    AT_MIN_ISR,
    FILTERS,
    UNAVAILABLE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    chosen,
)
from spark_ordered_kafka.errors import ConfigError, ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.updates import updated

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import KafkaTopicView, TopicView

_NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


def describe(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            autocompletion=complete_topic,
            help="Name of a topic, or a regular expression that names match; may be repeated.",
            show_default="all under management; with a filter all",
        ),
    ] = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    under_replicated_partitions: Annotated[
        bool, typer.Option(UNDER_REPLICATED, help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable_partitions: Annotated[
        bool, typer.Option(UNAVAILABLE, help="Only partitions without a leader.")
    ] = False,
    under_min_isr_partitions: Annotated[
        bool,
        typer.Option(
            UNDER_MIN_ISR, help="Only partitions with fewer replicas in sync than min.insync.replicas."
        ),
    ] = False,
    at_min_isr_partitions: Annotated[
        bool,
        typer.Option(
            AT_MIN_ISR, help="Only partitions with as many replicas in sync as min.insync.replicas."
        ),
    ] = False,
    exclude_internal: common.ExcludeInternalOption = False,
    if_exists: common.IfExistsOption = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Counts, change, configuration and partitions of topics, and what removed partitions wait for.

    Of topics beyond management it shows what kafka-topics shows. OFFSETS counts from the log's start to its end: the
    records, the markers that end transactions, and what was aborted. The SIZE, in bytes, is that of the leader's log.
    """
    given = {
        UNDER_REPLICATED: under_replicated_partitions,
        UNAVAILABLE: unavailable_partitions,
        UNDER_MIN_ISR: under_min_isr_partitions,
        AT_MIN_ISR: at_min_isr_partitions,
    }
    filters = [name for name, is_given in given.items() if is_given]
    wanted = topic or []
    if len(filters) > 1:
        raise ConfigError(filters[0], True, f"cannot be combined with {', '.join(filters[1:])}: give one")
    with common.connected(controller, command_config=command_config) as client:
        if filters:
            _print_filtered(_found(client, wanted, exclude_internal, if_exists), filters[0], output)
            return
        views = _views(client, wanted, exclude_internal, if_exists)
    shown = [one for one in views if not isinstance(one, RequestError)]
    _print(shown, output, is_single=len(wanted) == 1 and len(views) == 1)
    refused = [one for one in views if isinstance(one, RequestError)]
    for error in refused:
        typer.echo(f"error: {error.name}: {error.message}", err=True)
    if refused:
        raise typer.Exit(common.REFUSED)


def _print_filtered(topics: Sequence[KafkaTopicView], name: str, output: common.OutputFormat) -> None:
    """The partitions that a filter leaves."""
    from spark_ordered_kafka.cli.topic_views import print_partitions
    from spark_ordered_kafka.client.schemas import KafkaTopicList

    left = [
        updated(one, partitions=[row for row in one.partitions if FILTERS[name](one, row)]) for one in topics
    ]
    body = KafkaTopicList(topics=[one for one in left if one.partitions])
    if output.is_data:
        common.print_body(body, output)
    elif body.topics:
        print_partitions(body.topics)
    else:
        typer.echo("no such partitions")


def _print(
    views: Sequence[TopicView | KafkaTopicView], output: common.OutputFormat, *, is_single: bool
) -> None:
    from spark_ordered_kafka.cli.topic_views import print_managed, print_unmanaged
    from spark_ordered_kafka.client.schemas import TopicView

    if output.is_data:
        if is_single:
            common.print_body(views[0], output)
        else:
            common.print_data({"topics": [one.model_dump(mode="json") for one in views]}, output)
        return
    for number, one in enumerate(views):
        if number:
            typer.echo()
        if isinstance(one, TopicView):
            print_managed(one)
        else:
            print_unmanaged(one)


def _views(
    client: ControllerClient, wanted: Sequence[str], exclude_internal: bool, if_exists: bool
) -> list[TopicView | KafkaTopicView | RequestError]:
    """Of several topics, one that cannot be described has its error in its place."""
    if len(wanted) == 1:
        # The usual question, which every version of the controller answers.
        try:
            return [_managed(client, wanted[0])]
        except RequestError as error:
            if not _is_missing(error):
                raise
    if not wanted:
        return list(_all_managed(client, [one.topic for one in client.topics().topics]).values())
    rows: dict[str, TopicView | KafkaTopicView | RequestError] = {}
    rows |= {one.topic: one for one in _found(client, wanted, exclude_internal, if_exists=True)}
    # Also those that another tool has deleted, whose error says so.
    rows |= _all_managed(client, chosen((one.topic for one in client.topics().topics), wanted))
    if if_exists:
        return [one for _, one in sorted(rows.items()) if not _is_missing(one)]
    if not rows:
        raise _unknown(wanted)
    return [one for _, one in sorted(rows.items())]


def _is_missing(view: TopicView | KafkaTopicView | RequestError) -> bool:
    return isinstance(view, RequestError) and view.code in _NO_TOPIC


def _found(
    client: ControllerClient, wanted: Sequence[str], exclude_internal: bool, if_exists: bool
) -> list[KafkaTopicView]:
    """Topics of the cluster, with their configurations. Raises RequestError unless ``if_exists`` where none is found."""
    everything = client.kafka_topics()
    names = chosen(
        (one.topic for one in everything.topics if not (exclude_internal and one.internal)), wanted or [".*"]
    )
    if not names:
        if wanted and not if_exists:
            raise _unknown(wanted)
        return []
    every = len(names) == len(everything.topics)
    return client.kafka_topics([] if every else names, configs=True).topics


def _unknown(wanted: Sequence[str]) -> RequestError:
    shown = ", ".join(map(repr, wanted))
    return RequestError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic that you may describe is or matches {shown}"
    )


def _all_managed(client: ControllerClient, topics: Sequence[str]) -> dict[str, TopicView | RequestError]:
    def view(topic: str) -> TopicView | RequestError:
        try:
            return _managed(client, topic)
        except RequestError as error:
            return error

    return dict(zip(topics, common.at_once(view, topics), strict=True))


def _managed(client: ControllerClient, topic: str) -> TopicView:
    """With details; without them when a broker that has them does not answer."""
    try:
        return client.topic(topic, details=True)
    except OrderedKafkaError as error:
        if not error.retriable:
            raise
        view = client.topic(topic)
        typer.echo(f"warning: what the partitions hold is not known: {error}", err=True)
        return view
