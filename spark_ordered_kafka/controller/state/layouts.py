"""The layouts of topics in ZooKeeper. They never change, so they are cached."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.controller.state.paths import layout_path, topic_path
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.zk.records import number, parse
from spark_ordered_kafka.controller.zk.session import Session
from spark_ordered_kafka.errors import UnavailableError


class Layouts:
    """Reads by epoch. Safe to share between threads. ``record_of`` reads the record of a topic, None: it has none."""

    def __init__(self, session: Session, record_of: Callable[[str], TopicRecord | None]) -> None:
        self._session = session
        self._record_of = record_of
        self._kept: dict[tuple[str, int, int], LayoutRecord] = {}  # by topic, management, epoch

    def read(self, topic: str, record: TopicRecord, from_epoch: int) -> list[LayoutRecord]:
        """Those from ``from_epoch``, or from the first one that was not folded, to the record's epoch.

        Raises UnavailableError when the topic was replaced, or layouts folded, meanwhile.
        """
        epochs = range(max(from_epoch, record.first_layout_epoch), record.layout_epoch + 1)
        # Looked up at once: a fold that runs meanwhile removes layouts from the cache.
        kept = {epoch: self._kept.get((topic, record.management, epoch)) for epoch in epochs}
        known = {epoch: layout for epoch, layout in kept.items() if layout is not None}
        missing = [epoch for epoch in epochs if epoch not in known]
        found = self._get(topic, missing)
        if missing:
            # Paths have the topic's name, so these may be layouts of a topic that has replaced it meanwhile, or of a new adoption.
            now = self._record_of(topic)
            if now is None or now.management != record.management or len(found) < len(missing):
                raise UnavailableError(
                    f"topic {topic!r} was replaced, or old layouts folded, while its layouts were read; ask again"
                )
            self._kept.update(((topic, record.management, epoch), layout) for epoch, layout in found.items())
            self.forget(topic, record.management, record.first_layout_epoch)
        known |= found
        return [known[epoch] for epoch in epochs]

    def epochs(self, topic: str) -> list[int]:
        """Of which there are layouts, sorted; also of some that a fold has yet to delete."""
        path = f"{topic_path(topic)}/layouts"
        children = self._session.wait(self._session.client.get_children_async(path), path)
        return sorted(number(child, f"{path}/{child}") for child in children)

    def forget(self, topic: str, management: int = 0, first_epoch: int = 0) -> None:
        """Keep no layouts of the topic but those of that management from ``first_epoch`` on; without one, none."""
        for key in list(self._kept):
            if key[0] == topic and (key[1] != management or key[2] < first_epoch):
                self._kept.pop(key, None)

    def _get(self, topic: str, epochs: list[int]) -> dict[int, LayoutRecord]:
        """All are asked for at once; nothing from the first one on that is not there."""
        reads = [(epoch, self._session.client.get_async(layout_path(topic, epoch))) for epoch in epochs]
        found = {}
        for epoch, read in reads:
            path = layout_path(topic, epoch)
            try:
                data, _ = self._session.wait(read, path)
            except NoNodeError:
                break
            found[epoch] = parse(LayoutRecord, data, path)
        return found
