"""What the source knows of its topics: log ranges from the brokers, layouts from the controller, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import LayoutHistoryView, LayoutView
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, DataLossError, UnavailableError
from spark_ordered_kafka.kafka.clients import LogRanges
from spark_ordered_kafka.ordering import Layout, LayoutHistory

_MAX_ROUNDS = 5


@dataclass(frozen=True)
class TopicSnapshot:
    """A topic's log ranges, taken first, and its layout history, validated after.

    Everything below ``ends`` was written under a layout of ``history``: a later layout starts at or behind them.
    """

    topic: str
    topic_id: str
    history: LayoutHistory
    starts: Mapping[int, int]
    ends: Mapping[int, int]


class TopicDirectory:
    """Snapshots of topics. Immutable layouts are kept; only new ones are asked for."""

    def __init__(self, connection: Connection) -> None:
        self._controller = ControllerClient(connection.controller_url)
        self.ranges = LogRanges(connection)
        self._connection = connection
        self._cluster_id: str | None = None
        self._known: dict[str, LayoutHistoryView] = {}
        self._histories: dict[str, LayoutHistory] = {}

    def close(self) -> None:
        """Close the connection to the controller."""
        self._controller.close()

    def history(self, topic: str) -> LayoutHistory:
        """The layout history as known by now, asked for if it is not known at all."""
        if topic not in self._histories:
            self._refresh(topic)
        return self._histories[topic]

    def history_until(self, topic: str, epoch: int) -> LayoutHistory:
        """A layout history that reaches to ``epoch`` at least; asked for only if what is known does not."""
        history = self.history(topic)
        return history if history.current.epoch >= epoch else self._refresh(topic)

    def snapshot(self, topic: str) -> TopicSnapshot:
        """Log ranges first, layout second; again if the layout has partitions whose end was not taken.

        Raises UnavailableError when a broker or the controller does not answer.
        """
        partitions = range(self.history(topic).partition_count)
        for _ in range(_MAX_ROUNDS):
            starts = self.ranges.starts(topic, partitions)
            ends = self.ranges.ends(topic, partitions)
            history = self._refresh(topic)
            if history.partition_count <= len(partitions):
                return TopicSnapshot(topic, self._known[topic].topic_id, history, starts, ends)
            partitions = range(history.partition_count)
        raise UnavailableError(
            f"the layout of {topic!r} changed {_MAX_ROUNDS} times while its ends were read"
        )

    def _refresh(self, topic: str) -> LayoutHistory:
        known = self._known.get(topic)
        answer = self._controller.layout(topic, 0 if known is None else len(known.layouts))
        self._check_cluster(answer)
        if known is not None and answer.topic_id != known.topic_id:
            raise DataLossError(
                f"topic {topic!r} was deleted and created again: its id was {known.topic_id}, now it is"
                f" {answer.topic_id}"
            )
        if known is not None and not answer.layouts:
            return self._histories[topic]
        layouts: list[LayoutView] = [*(() if known is None else known.layouts), *answer.layouts]
        self._known[topic] = answer.model_copy(update={"layouts": layouts})
        self._histories[topic] = LayoutHistory(
            answer.initial_partition_count,
            tuple(Layout(view.epoch, view.undeleted_partition_count, tuple(view.starts)) for view in layouts),
        )
        return self._histories[topic]

    def _check_cluster(self, answer: LayoutHistoryView) -> None:
        if self._cluster_id is None:
            self._cluster_id = self.ranges.cluster_id()
        check_cluster(self._connection, answer.cluster_id, self._cluster_id)


def check_cluster(connection: Connection, managed: str, found: str) -> None:
    """Raises ConfigError when the controller manages another Kafka cluster than the brokers are."""
    if managed != found:
        raise ConfigError(
            "option controller.url",
            connection.controller_url,
            f"this controller manages the Kafka cluster {managed}, but kafka.bootstrap.servers"
            f" ({connection.bootstrap_servers}) leads to {found}",
        )
