"""What the source knows of its topics: log ranges from the brokers, layouts from the controller, in that order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from spark_ordered_kafka.client.layout_answers import LayoutHistoryView
from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.client.topic_layouts import (
    TopicLayouts,
    TopicSnapshot,
    adopted_again,
    is_adopted_again,
    origin_of,
    with_earlier,
)
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, DataLossError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.ranges import LogQuestion, LogRanges, TopicLog

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient

_MAX_ROUNDS = 5


class TopicDirectory:
    """Snapshots of topics. Immutable layouts are kept; only new ones are asked for."""

    def __init__(self, connection: Connection, *, retry_for: float | None = None) -> None:
        self.client = Layouts(connection, retry_for=retry_for)
        self.ranges = LogRanges(connection)
        self._connection = connection
        self._retry_for = retry_for
        self._cluster_id: str | None = None
        self._views: dict[str, LayoutHistoryView] = {}
        self._layouts: dict[str, TopicLayouts] = {}
        self._adoptions: dict[str, int] = {}
        self._deleted: dict[str, tuple[TopicLayouts, frozenset[int]]] = {}

    def close(self) -> None:
        """Close the connections to controllers and brokers."""
        self.ranges.close()
        self.client.close()
        if "controller" in self.__dict__:
            self.controller.close()

    @cached_property
    def controller(self) -> ControllerClient:
        """A client with all calls, made at the first use: few readers need it."""
        from spark_ordered_kafka.client.controller import ControllerClient

        return ControllerClient.of(self._connection, retry_for=self._retry_for)

    def layouts(self, topic: str) -> TopicLayouts:
        """The layouts as known by now, asked for if they are not known at all."""
        return self._layouts[topic] if topic in self._layouts else self.refresh(topic)

    def layouts_until(self, topic: str, topic_id: str, epoch: int) -> TopicLayouts:
        """The layouts up to ``epoch``; asked for only if what is known does not reach so far.

        Raises DataLossError when the topic of that id was deleted and created again.
        """
        known = self.layouts(topic)
        if known.topic_id != topic_id or known.history.current.epoch < epoch:
            known = self.refresh(topic)
        if known.topic_id != topic_id:
            raise DataLossError(
                f"topic {topic!r} was deleted and created again: its id was {topic_id}, now it is {known.topic_id}"
            )
        if known.history.current.epoch < epoch:
            raise adopted_again(topic)
        return known.until(epoch)

    def snapshot(self, topic: str) -> TopicSnapshot:
        """Log ranges first, layouts second; again if these are newer than those that were known before.

        So all ends are of one layout: otherwise a reading that starts at them may have a gap inside a key (D-053).

        Raises UnavailableError when a broker or the controller does not answer, DataLossError when the topic was
        created again and the controller knows the old one only, RequestError UNKNOWN_TOPIC_OR_PARTITION when it is
        not there.
        """
        known = self.layouts(topic)
        for _ in range(_MAX_ROUNDS):
            log = self.log(known, range(known.history.partition_count))
            layouts = self.refresh(topic)
            if layouts is known:
                return TopicSnapshot.of(layouts, log)
            known = layouts
        raise UnavailableError(
            f"the layout of {topic!r} changed {_MAX_ROUNDS} times while its ends were read"
        )

    def snapshots(self, topics: Sequence[str]) -> Iterator[TopicSnapshot | DataLossError | RequestError]:
        """As :meth:`snapshot` of each, or what it raises about the topic: with as few requests as if there was one (D-474)."""
        ready = self._snapshots_of_ready(topics)
        for topic in topics:
            try:
                found = ready[topic] if topic in ready else self.snapshot(topic)
            except (DataLossError, RequestError) as error:
                yield error
            else:
                yield found

    def _snapshots_of_ready(self, topics: Sequence[str]) -> dict[str, TopicSnapshot]:
        """Snapshots of the topics whose leaders all answer at once, and whose layouts do not change meanwhile."""
        if len(topics) <= 1:
            return {}
        unknown = [topic for topic in topics if topic not in self._layouts]
        self._refresh_each(unknown)
        known = {topic: self._layouts[topic] for topic in topics if topic in self._layouts}
        questions = {
            topic: _question(layouts, range(layouts.history.partition_count))
            for topic, layouts in known.items()
        }
        logs = self.ranges.ready_logs(questions)
        layouts_now = zip(logs, self._refresh_each(list(logs)), strict=True)
        return {
            topic: TopicSnapshot.of(layouts, logs[topic])
            for topic, layouts in layouts_now
            if layouts is known[topic] and logs[topic].topic_id == known[topic].topic_id
        }

    def log(self, layouts: TopicLayouts, partitions: Collection[int]) -> TopicLog:
        """The log ranges of some partitions; removed ones that have no leader are left out: see :meth:`require`."""
        return self.ranges.log(layouts.topic, _question(layouts, partitions))

    def require(self, layouts: TopicLayouts, absent: Collection[int], positions: Mapping[int, int]) -> None:
        """Check that reading from ``positions`` (0 where one is missing) needs nothing of removed partitions without a
        leader: they are read to the start of the newest layout, or the controller has seen them empty (D-055).

        Raises UnavailableError: there may be records.
        """
        unread = {p for p in absent if positions.get(p, 0) < layouts.history.current.start(p)}
        if not unread:
            return
        known = self._deleted.get(layouts.topic)
        if known is None or known[0] is not layouts or not unread <= known[1]:
            view = self.controller.topic(layouts.topic)
            deleted = frozenset(one.partition for one in view.partitions if one.status == "deleted")
            known = layouts, deleted if view.layout_epoch == layouts.history.current.epoch else frozenset()
            self._deleted[layouts.topic] = known
        needed = sorted(unread - known[1])
        if needed:
            raise UnavailableError(
                f"{layouts.topic}-{needed[0]} has no leader. A shrink removed it, and it has records up to offset"
                f" {layouts.history.current.start(needed[0]) - 1} that are not read: its broker has to come back"
            )

    def refresh(self, topic: str) -> TopicLayouts:
        """The layouts as the controller has them now: a linearizable read."""
        (layouts,) = self.refresh_all([topic])
        return layouts

    def refresh_all(self, topics: Sequence[str]) -> list[TopicLayouts]:
        """As :meth:`refresh` of each, by one request (D-474)."""
        found = []
        for one in self._refresh_each(topics):
            if isinstance(one, RequestError):
                raise one
            found.append(one)
        return found

    def _refresh_each(self, topics: Sequence[str]) -> list[TopicLayouts | RequestError]:
        """Layouts, or why there are none: an error of one topic costs no other one its layouts."""
        known = [self._views.get(topic) for topic in topics]
        epochs = [0 if view is None else view.layouts[-1].epoch + 1 for view in known]
        answers = self.client.layouts(list(zip(topics, epochs, strict=True)))
        return list(map(self._refreshed, topics, known, answers))

    def _refreshed(
        self, topic: str, known: LayoutHistoryView | None, answer: LayoutHistoryView | RequestError
    ) -> TopicLayouts | RequestError:
        """``answer`` has only what came after ``known``."""
        is_newer = (
            known is not None
            and not isinstance(answer, RequestError)
            and origin_of(answer) == origin_of(known)
        )
        if known is not None and not is_newer:
            # Of a topic created or adopted again there are fewer layouts. Whatever else was refused is refused again.
            (answer,) = self.client.layouts([(topic, 0)])
        return answer if isinstance(answer, RequestError) else self._keep(topic, known, answer, is_newer)

    def _keep(
        self, topic: str, known: LayoutHistoryView | None, answer: LayoutHistoryView, is_newer: bool
    ) -> TopicLayouts:
        self._check_cluster(answer)
        if is_newer and not answer.layouts:
            return self._layouts[topic]
        if known is not None and not is_newer:
            if is_adopted_again(known, answer):
                self._adoptions[topic] = self._adoptions.get(topic, 0) + 1
                known = None
            elif answer.topic_id == known.topic_id and answer.layouts[-1].epoch < known.layouts[-1].epoch:
                raise UnavailableError(
                    f"the controller knows fewer layouts of topic {topic!r} than it did before"
                )
        answer = with_earlier(known, answer)
        self._views[topic] = answer
        self._layouts[topic] = TopicLayouts.of(answer, self._adoptions.get(topic, 0))
        return self._layouts[topic]

    def _check_cluster(self, answer: LayoutHistoryView) -> None:
        managed = answer.cluster_id
        self._cluster_id = checked_cluster(
            self._connection, managed, self._cluster_id, self.ranges.cluster_id
        )


def _question(layouts: TopicLayouts, partitions: Collection[int]) -> LogQuestion:
    return LogQuestion(partitions, layouts.removed, layouts.reached)


def checked_cluster(connection: Connection, managed: str, known: str | None, ask: Callable[[], str]) -> str:
    """The id of the cluster that the brokers are: the ``known`` one, if that is the ``managed`` one, else what ``ask`` returns.

    Brokers may have been set up anew at the same addresses since it became known.

    Raises ConfigError when the controller manages another Kafka cluster.
    """
    found = known if known == managed else ask()
    if managed != found:
        raise ConfigError(
            "option controller.url",
            connection.controller_url,
            f"this controller manages the Kafka cluster {managed}, but kafka.bootstrap.servers"
            f" ({connection.bootstrap_servers}) leads to {found}",
        )
    return found
