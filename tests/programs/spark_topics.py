"""The topics of a Spark program: sources that are filled, changed, deleted and created again, and targets.

A program that breaks a promise is printed with this text before it, so that it runs by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.programs.prelude import Use


class SparkTopics(Use):
    """``sources``, and ``out`` and ``out2``: each has the run in its whole name."""

    def __init__(
        self,
        servers: dict[str, str],
        sources: tuple[str, ...],
        tell: Callable[[str, str, Any], object] = print,
        run: str | None = None,
    ) -> None:
        super().__init__(servers, tell, run)
        self.sources = sources
        self.topics = {name: f"{name}-{self.run}" for name in (*sources, "out", "out2")}
        self._there: set[str] = set()

    def make_topics(self) -> None:
        """All that are not there, with two partitions; says which ids those of the sources have."""
        for name in self.topics.keys() - self._there:
            topic = self.topic(name)
            self._there.add(name)
            if name in self.sources:
                self.tell(name, "created", self._controller.layout(topic).topic_id)

    def drop_topic(self, name: str) -> None:
        """Delete a source."""
        if name in self._there:
            if "w" in self.clients:
                # It would refuse the topic that is created again.
                self.clients.pop("w").close()
            self._controller.delete_topic(self.topics[name])
            self._there.discard(name)
            self.tell(name, "dropped", None)

    def change_topic(self, name: str, count: int) -> None:
        """Change a topic's partition count; one that was dropped is created again first."""
        self.make_topics()
        self.change(self.topics[name], count)

    def fill(self, keys: Iterable[str | None], name: str = "a") -> None:
        """Write a record for each key to a source; they are committed, and reported with their offsets."""
        self.make_topics()
        if "w" not in self.clients:
            self.producer("w", commit_interval_ms=20)
        self.write("w", self.topics[name], keys, headers=True)
        self.clients["w"].flush()

    def delete_older(self, percent: int, name: str = "a") -> None:
        """Delete so many percent of each partition of a source, the older records, as retention does."""
        self.make_topics()
        topic = self.topics[name]
        admin = AdminClient({"bootstrap.servers": self.servers["bootstrap.servers"]})
        places = [TopicPartition(topic, p) for p in admin.list_topics(topic, 30).topics[topic].partitions]

        def offsets(spec: OffsetSpec) -> dict[int, int]:
            found = admin.list_offsets(dict.fromkeys(places, spec))
            return {place.partition: future.result(30).offset for place, future in found.items()}

        begins, ends = offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest())
        lows = {p: begin + (ends[p] - begin) * percent // 100 for p, begin in begins.items()}
        self.delete_records(topic, lows)
        self.tell(name, "deleted", lows)
