"""``ordered-kafka topics list``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_topic
from spark_ordered_kafka.cli.topic_filters import chosen

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import KafkaTopicView, TopicSummary

_COLUMNS = ("TOPIC", "PARTITIONS", "INITIAL", "EPOCH", "HASH", "ORDERED", "CHANGE")


def list_topics(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            autocompletion=complete_topic,
            help="Name of a topic, or a regular expression that names match; may be repeated.",
            show_default="all",
        ),
    ] = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    managed: Annotated[bool, typer.Option("--managed", help="Only topics under management.")] = False,
    exclude_internal: common.ExcludeInternalOption = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """All topics of the cluster, those under management first."""
    with common.connected(controller, command_config=command_config) as client:
        ours = client.topics().topics
        others = [] if managed else [one for one in client.kafka_topics().topics if not one.managed]
        if topic:
            every = [*(one.topic for one in ours), *(one.topic for one in others)]
            names = {*chosen(every, topic)}
            ours = [one for one in ours if one.topic in names]
            others = [one for one in others if one.topic in names]
        others = [one for one in others if not (exclude_internal and one.internal)]
    if output is common.OutputFormat.TABLE:
        common.print_table(_COLUMNS, (*_ours(ours), *_others(others)))
        return
    body = {"topics": [one.model_dump(mode="json") for one in ours]}
    if not managed:
        body["unmanaged"] = [one.model_dump(mode="json") for one in others]
    common.print_data(body, output)


def _ours(topics: Iterable[TopicSummary]) -> Iterable[tuple[object, ...]]:
    from spark_ordered_kafka.cli.change_progress import shown

    for one in topics:
        change = None if one.change is None else f"{shown(one.change)}, {one.change.step}"
        ordered = "yes" if one.ordered_delivery else "no"
        yield (
            one.topic,
            one.undeleted_partition_count,
            one.initial_partition_count,
            one.layout_epoch,
            one.hash,
            ordered,
            change,
        )


def _others(topics: Iterable[KafkaTopicView]) -> Iterable[tuple[object, ...]]:
    for one in topics:
        kind = "internal to Kafka" if one.internal else "not managed"
        yield one.topic, len(one.partitions), None, None, None, kind, None
