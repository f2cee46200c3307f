"""Plans how a checkpoint of Spark's own ``kafka`` source becomes one of ours, and back, by what logs and layouts are now."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.client.topic_layouts import TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import ConfigError, DataLossError, MigrationError, RequestError
from spark_ordered_kafka.kafka.sampling import sample_records
from spark_ordered_kafka.ordering.migration import (
    KeyedRecord,
    kafka_offset,
    misrouted,
    overtaken,
    read_kafka_offset,
    read_ordered_offset,
    unread_layouts,
    wrong_positions,
)
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset
from spark_ordered_kafka.parsing import raise_all
from spark_ordered_kafka.spark.checkpoint import NO_OFFSET, Batch, Checkpoint
from spark_ordered_kafka.spark.options import SourceOptions

KAFKA, ORDERED = "kafka", "ordered-kafka"
_SAMPLING_TIMEOUT = 4.0
_SHOWN = 10


@dataclass(frozen=True)
class TopicPlan:
    """A topic of the new checkpoint. ``unread``: offsets behind the positions. ``caveats``: what has no order, in words."""

    topic: str
    layout_epoch: int
    positions: Mapping[int, int]
    unread: int
    caveats: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """The batches of the new checkpoint, whose ``sources`` are of ``to_format``."""

    to_format: str
    sources: tuple[int, ...]
    batches: tuple[Batch, ...]
    topics: Sequence[TopicPlan] = field(default_factory=tuple)


def sources_of(
    option: str, checkpoint: Checkpoint, wanted: Collection[int]
) -> tuple[str, dict[int, set[str]]]:
    """The format that sources are to have, and their topics by index: those ``wanted``, or all of a format that can be changed.

    Raises ConfigErrors: there are none, some cannot be changed, or both formats are there and none is named.
    """
    formats, topics = {}, {}
    for index, text in enumerate(checkpoint.last.offsets):
        plain, ordered = read_kafka_offset(text), read_ordered_offset(text)
        if ordered is not None:
            formats[index], topics[index] = ORDERED, set(ordered["topics"])
        elif plain is not None:
            formats[index], topics[index] = KAFKA, set(plain)
    count = len(checkpoint.last.offsets)
    named = sorted(set(wanted)) or sorted(formats)
    raise_all(
        ConfigError("--source", index, _not_a_source(checkpoint, index, count))
        for index in named
        if index not in formats
    )
    found = {formats[index] for index in named}
    if not found:
        hint = f"none of its {count} sources is of the format {KAFKA} or {ORDERED}"
        raise ConfigError(option, str(checkpoint.directory), hint)
    if len(found) > 1:
        kinds = ", ".join(f"{index} is {name}" for index, name in formats.items())
        raise ConfigError(
            "--source", None, f"name those to change, which must be of one format: source {kinds}"
        )
    (present,) = found
    return (ORDERED if present == KAFKA else KAFKA), {index: topics[index] for index in named}


def _not_a_source(checkpoint: Checkpoint, index: int, count: int) -> str:
    if not 0 <= index < count:
        return f"the query has the sources 0 to {count - 1}"
    if checkpoint.last.offsets[index] == NO_OFFSET:
        return "that source has read nothing yet: let the query run until it has"
    return f"that source is neither of the format {KAFKA} nor of {ORDERED}"


class Planner:
    """Plans with the connection of ``options``; ``force``: goes back to Spark's source although layouts are not read yet."""

    def __init__(self, options: SourceOptions, *, force: bool) -> None:
        self._directory = TopicDirectory(options.connection)
        self._kafka = options.connection.kafka
        self._force = force
        self._problems: list[str] = []

    def close(self) -> None:
        """Close the connections."""
        self._directory.close()

    def plan(self, checkpoint: Checkpoint, to_format: str, sources: Mapping[int, set[str]]) -> Plan:
        """The new batches.

        Raises:
            MigrationError: everything that is in the way.
            UnavailableError: a broker or controller does not answer.
        """
        self._problems = []
        topics: list[TopicPlan] = []
        ends: dict[int, str] = {}
        convert = self._to_ordered if to_format == ORDERED else self._to_kafka
        for index in sources:
            ends[index], plans = convert(checkpoint.last.offsets[index])
            topics += plans
        if self._problems:
            raise MigrationError(tuple(dict.fromkeys(self._problems)))
        batches = []
        for batch in checkpoint.batches:
            # The batch before is never read again, since the last one is committed: its end may as well be the same.
            offsets = tuple(ends.get(i, text) for i, text in enumerate(batch.offsets))
            batches.append(replace(batch, offsets=offsets))
        return Plan(to_format, tuple(sources), tuple(batches), topics)

    def _to_ordered(self, text: str) -> tuple[str, list[TopicPlan]]:
        offset, plans = {}, []
        for topic, positions in sorted((read_kafka_offset(text) or {}).items()):
            snapshot = self._snapshot(topic)
            if snapshot is None:
                continue
            if not snapshot.layouts.ordered:
                hint = f"it has no ordered delivery: ordered-kafka topics alter --topic {topic} --ordered-delivery"
                self._refuse(topic, hint)
            wrong = wrong_positions(topic, snapshot.history, positions, snapshot.starts, snapshot.ends)
            for reason in wrong:
                self._refuse(topic, reason)
            if wrong:
                continue
            # A partition that the old query has not met is read from its start, as there.
            complete = {p: positions.get(p, snapshot.starts[p]) for p in snapshot.ends}
            epoch = snapshot.history.current.epoch
            offset[topic] = TopicOffset.of(snapshot.topic_id, epoch, complete, snapshot.leader_epochs)
            plans.append(self._topic_plan(snapshot, complete, self._caveats(snapshot, complete)))
        return json.dumps(SourceOffset(offset).to_json()), plans

    def _to_kafka(self, text: str) -> tuple[str, list[TopicPlan]]:
        found: dict[str, dict[int, int]] = {}
        plans = []
        for topic, offset in sorted(SourceOffset.from_json(read_ordered_offset(text) or {}).topics.items()):
            snapshot = self._snapshot(topic)
            if snapshot is None:
                continue
            if offset.topic_id != snapshot.topic_id:
                self._refuse(topic, f"it was created again: the checkpoint knows the id {offset.topic_id}")
                continue
            history = snapshot.history
            positions = {p: offset.position(p) for p in range(history.partition_count)}
            for p, start in snapshot.log_starts.items():
                # Nothing that an ordered reader needs was there.
                if positions[p] < start and not snapshot.layouts.may_hold(p, positions[p], start):
                    positions[p] = start
            for reason in wrong_positions(topic, history, positions, snapshot.log_starts, snapshot.ends):
                self._refuse(topic, reason)
            caveats = self._held_back(snapshot, positions)
            found[topic] = positions
            plans.append(self._topic_plan(snapshot, positions, caveats))
        return kafka_offset(found), plans

    def _held_back(self, snapshot: TopicSnapshot, positions: Mapping[int, int]) -> list[str]:
        behind = unread_layouts(snapshot.history, positions)
        reasons = [
            f"{snapshot.topic}-{p} is at offset {positions[p]} and has records of earlier layouts up to {end}, which Spark's own"
            " source would not keep before later ones of their keys"
            for p, end in behind.items()
        ]
        if reasons and not self._force:
            hint = "run the ordered query with the trigger availableNow until it ends, and try again; or use --force"
            self._refuse(snapshot.topic, f"{_some(reasons)[0]} ({len(reasons)} in all): {hint}")
        return _some(reasons)

    def _caveats(self, snapshot: TopicSnapshot, positions: Mapping[int, int]) -> list[str]:
        topic, history = snapshot.topic, snapshot.history
        caveats = [
            f"{topic}-{one.partition}: offsets {one.start} to {one.end - 1} come after later records of the same keys, which"
            f" the old query has read from {topic}-{one.by} already"
            for one in overtaken(history, positions)
        ]
        for p, end in snapshot.ends.items():
            loose = [
                (low, high)
                for epoch, low, high in history.segments(p, positions[p], end)
                if snapshot.layouts.routing(epoch) is None
            ]
            if loose:
                caveats.append(
                    f"{topic}-{p}: offsets {loose[0][0]} to {loose[-1][1] - 1} were written without ordered delivery, and their"
                    " keys may lie in any partition"
                )
        return _some(caveats) + self._sampled(snapshot, positions)

    def _sampled(self, snapshot: TopicSnapshot, positions: Mapping[int, int]) -> list[str]:
        """By a sample of what is not read: where records lie where their keys do not belong."""
        topic = snapshot.topic
        logs = {p: (positions[p], end) for p, end in snapshot.ends.items() if p not in snapshot.absent}
        sample = sample_records(self._kafka, topic, logs, timeout=_SAMPLING_TIMEOUT)
        records = [KeyedRecord(one.partition, one.offset, one.key) for one in sample.records]
        wrong = misrouted(snapshot.history, snapshot.layouts.routing, records)
        last = {one.partition: one.offset for one in sorted(wrong, key=lambda one: one.offset)}
        rows = [
            f"{topic}-{p}: records up to offset {offset}, at least, are not all where their keys belong: such keys have no order"
            " between partitions"
            for p, offset in sorted(last.items())
        ]
        if wrong:
            rows.append(f"{topic}: of {len(records)} sampled records with a key, {len(wrong)} lie elsewhere")
        if not sample.complete:
            rows.append(f"{topic}: not all that was to be sampled was read within {_SAMPLING_TIMEOUT:g} s")
        return rows if len(rows) <= _SHOWN else [*_some(rows[:-1]), rows[-1]]

    def _topic_plan(
        self, snapshot: TopicSnapshot, positions: Mapping[int, int], caveats: Sequence[str]
    ) -> TopicPlan:
        unread = sum(max(0, end - positions[p]) for p, end in snapshot.ends.items())
        return TopicPlan(snapshot.topic, snapshot.history.current.epoch, positions, unread, caveats)

    def _snapshot(self, topic: str) -> TopicSnapshot | None:
        """None: it is not there; that is reported."""
        try:
            return self._directory.snapshot(topic)
        except RequestError as error:
            self._refuse(topic, error.message)
        except DataLossError as error:
            self._refuse(topic, str(error))
        return None

    def _refuse(self, topic: str, reason: str) -> None:
        self._problems.append(reason if topic in reason else f"topic {topic!r}: {reason}")


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"and {more} more"] if more > 0 else list(lines)
