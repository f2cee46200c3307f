"""Decides which throttles brokers and topics need, how to set them, and what to restore. PURE.

Kafka limits replication by configuration that changes while it runs (KIP-73, KIP-113): rates of single brokers, and lists
of the replicas of a topic that the rates are for. Kafka's own tool deletes all of it at the end, the operator's values
too. Here every value has a :class:`ConfigOverride` with the former value. It is stored before Kafka is asked, so that
the next controller can compare it with Kafka's value and see what is left to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from rich.filesize import decimal

from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.controller.zk.records import OPEN, Record
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.updates import updated

# org.apache.kafka.server.config.QuotaConfig
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

ALL_REPLICAS = "*"
"""In a topic's list: all replicas it has."""
# A string of Kafka's protocol, and of its metadata log, may have so many bytes.
_MAX_VALUE = 32_767
# Moves of a request that are listed before they begin. What is written to a listed partition counts for its leader's rate
# wherever it goes, in sync or not (``KafkaApis.sizeOfThrottledPartitions``): were all listed that wait, that alone could use
# the rate up, and nothing would ever move.
_AHEAD = 500
_SHOWN = 10
_MAX_TOLD = 100


class Key(NamedTuple):
    """One value of Kafka's configuration; ``resource`` is the id of a broker or the name of a topic."""

    kind: Literal["broker", "topic"]
    resource: str
    name: str


@dataclass(frozen=True)
class Need:
    """The throttles of a request in bytes per second (None: no limit), and its moves, in the order in which they begin; ended
    ones are ignored."""

    throttle: int | None
    log_dir_throttle: int | None
    moves: tuple[Move, ...]


class ConfigOverride(BaseModel):
    """A value of Kafka's configuration that is, or is about to be, other than its owner's.

    Attributes:
        original: what its owner had set, None: nothing.
        value: what Kafka was, or is about to be, asked to have; ``original`` again when it is put back.
        earlier: what Kafka may show while that has not been done; empty once it has shown ``value``.
        externally_modified: another tool has changed it since, which keeps it.
        requests: whose replicas the list of a topic was made for.
    """

    model_config = OPEN | ConfigDict(validate_by_name=True, validate_by_alias=True)

    original: str | None = Field(validation_alias="prior", serialization_alias="prior")
    value: str | None
    earlier: tuple[str | None, ...] = ()
    externally_modified: bool = Field(
        default=False, validation_alias="foreign", serialization_alias="foreign"
    )
    requests: tuple[int, ...] = ()


class ThrottlesRecord(Record):
    """``/admin/reassign_partitions_throttles``: by broker or topic, the values held there by name."""

    brokers: dict[str, dict[str, ConfigOverride]] = Field(default_factory=dict)
    topics: dict[str, dict[str, ConfigOverride]] = Field(default_factory=dict)

    def held(self) -> dict[Key, ConfigOverride]:
        """All of them."""
        found = {
            Key("broker", b, name): held
            for b, values in self.brokers.items()
            for name, held in values.items()
        }
        found.update(
            (Key("topic", t, name), held)
            for t, values in self.topics.items()
            for name, held in values.items()
        )
        return found

    def holding(self, held: Mapping[Key, ConfigOverride]) -> ThrottlesRecord:
        """The record with these instead, the same one for the same."""
        kinds: dict[str, dict[str, dict[str, ConfigOverride]]] = {"broker": {}, "topic": {}}
        for key in sorted(held):
            kinds[key.kind].setdefault(key.resource, {})[key.name] = held[key]
        return updated(self, brokers=kinds["broker"], topics=kinds["topic"])


@dataclass(frozen=True)
class Rate:
    """A broker is to have this rate, in bytes per second."""

    rate: int

    def value(self, _: ConfigOverride) -> str:
        """As Kafka's configuration has it."""
        return str(self.rate)


@dataclass(frozen=True)
class Replicas:
    """A topic's list is to have these (partition, broker), which ``requests`` are moving."""

    replicas: frozenset[tuple[int, int]]
    requests: tuple[int, ...]

    def value(self, held: ConfigOverride) -> str:
        """Theirs and the owner's; ``*`` where the owner has that, or where the list would be too long for Kafka.

        It gets shorter when a request ends, and when half of it is done, not with every partition: changes cost the whole
        cluster a write.
        """
        own = _listed(held.original)
        if own == [ALL_REPLICAS]:
            return held.original or ALL_REPLICAS
        ours = [text for text in _texts(self.replicas) if text not in set(own)]
        if held.requests == self.requests:
            there = set(_listed(held.value)) - set(own)
            if there.issuperset(ours) and len(there) <= 2 * len(ours):
                return held.value or ""
        merged = ",".join([*own, *ours])
        return merged if len(merged) <= _MAX_VALUE else ALL_REPLICAS


Wanted = Mapping[Key, "Rate | Replicas"]


@dataclass(frozen=True)
class Found:
    """The values that could be read (None: not set), and topics that do not exist."""

    values: Mapping[Key, str | None]
    gone: Collection[str] = ()


@dataclass(frozen=True)
class Step:
    """The next step.

    Attributes:
        record: to be stored first.
        changes: new values to be set in Kafka then (None: deleted); they may have been requested before.
        absent: brokers that do not answer although a value of theirs must change.
        warnings: of values that requests need, but that another tool has changed.
    """

    record: ThrottlesRecord
    changes: Mapping[Key, str | None]
    absent: tuple[str, ...]
    warnings: tuple[str, ...]


def wanted(needs: Mapping[int, Need]) -> dict[Key, Rate | Replicas]:
    """The values that requests (by id) need: if several name a broker, the newest request's rate.

    Rates are for all moves, lists of replicas for those that have begun and the next 500 of each request.
    """
    rates: dict[tuple[int, str], int] = {}
    replicas: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    requests: dict[str, list[int]] = defaultdict(list)
    for request in sorted(needs):
        need = needs[request]
        rates.update(((broker, name), rate) for broker, name, rate in _rates(need))
        late = unlisted(need)
        moving = [move for move in _moving(need.moves) if need.throttle is not None and move.tp not in late]
        for move in moving:
            replicas[move.topic, LEADER_REPLICAS].update((move.partition, broker) for broker in move.before)
            replicas[move.topic, FOLLOWER_REPLICAS].update((move.partition, broker) for broker in move.adding)
        for topic in {move.topic for move in moving}:
            requests[topic].append(request)
    wishes: dict[Key, Rate | Replicas] = {
        Key("topic", topic, name): Replicas(frozenset(rows), tuple(requests[topic]))
        for (topic, name), rows in replicas.items()
    }
    wishes.update((Key("broker", str(broker), name), Rate(rate)) for (broker, name), rate in rates.items())
    return wishes


def unlisted(need: Need) -> frozenset[PartitionId]:
    """Moves that :func:`wanted` does not list yet: so many others begin before them."""
    if need.throttle is None:
        return frozenset()
    waiting = [move.tp for move in _moving(need.moves) if move.state == "waiting"]
    return frozenset(waiting[_AHEAD:])


def advance(record: ThrottlesRecord, wishes: Wanted, found: Found) -> Step:
    """The next step from the record and Kafka's values to the wanted values.

    ``found`` has the keys of both, but for brokers and topics that did not answer. Without changes and absent brokers all
    is done. A value that is not wanted any more leaves the record once Kafka shows the former value.
    """
    held = record.held()
    kept: dict[Key, ConfigOverride] = {}
    changes: dict[Key, str | None] = {}
    absent: set[str] = set()
    foreign: list[Key] = []
    for key in sorted(held.keys() | wishes.keys()):
        if key.kind == "topic" and key.resource in found.gone:
            continue
        wish = wishes.get(key)
        before = held.get(key)
        if key not in found.values:
            if before is not None:
                kept[key] = before
            if _is_late(before, wish):
                absent.add(key.resource)
            continue
        value = found.values[key]
        after = _aimed(
            ConfigOverride(original=value, value=value) if before is None else _judged(before, value), wish
        )
        if after is None:
            continue
        kept[key] = after
        if after.earlier:
            changes[key] = after.value
        if after.externally_modified:
            foreign.append(key)
    warnings = tuple(_told_foreign(foreign, found.values))
    return Step(record.holding(kept), changes, tuple(sorted(absent)), warnings)


def too_slow(
    needs: Mapping[int, Need],
    leaders: Mapping[PartitionId, int],
    before: Mapping[PartitionId, int],
    after: Mapping[PartitionId, int],
    seconds: float,
) -> list[str]:
    """Warnings for brokers whose throttle is not above the write rate of the partitions that they move.

    A follower that receives no more than is written never catches up, so such a move never ends (Kafka's documentation:
    the throttle must be above the write rate). Call it every few seconds with the needs that
    :meth:`~spark_ordered_kafka.controller.reassign.throttle.manager.Throttles.reconcile` gets.

    Args:
        needs: moves in the states ``starting`` and ``moving`` count, and for log directories also ``placing`` ones.
        leaders: leader of each partition; one that is missing counts as one without.
        before: bytes of each leader's log at a first time; partitions that are missing here or in ``after`` are left out.
        after: bytes at a second time. Where retention made the log shorter, nothing was written.
        seconds: from the first time to the second one; 0 or less: no warnings.
    """
    if seconds <= 0:
        return []
    written = {tp: max(0, size - before[tp]) / seconds for tp, size in after.items() if tp in before}
    limits = {
        (broker, name): rate for request in sorted(needs) for broker, name, rate in _rates(needs[request])
    }
    loads: dict[tuple[int, str], float] = defaultdict(float)
    for need in needs.values():
        started = [move for move in need.moves if move.state != "waiting"]
        for move in _moving(started) if need.throttle is not None else ():
            rate = written.get(move.tp, 0.0)
            for broker in move.adding:
                loads[broker, FOLLOWER_RATE] += rate
            leader = leaders.get(move.tp)
            if leader in move.before:
                # To all followers: what those in sync get counts, too.
                loads[leader, LEADER_RATE] += rate * (len({*move.before, *move.after}) - 1)
        for move in _placing(started) if need.log_dir_throttle is not None else ():
            for broker in _moves_dirs(move):
                loads[broker, LOG_DIRS_RATE] += written.get(move.tp, 0.0)
    return [
        f"broker {broker}: the throttle of {decimal(limits[broker, name])}/s is not above the {decimal(round(load))}/s "
        f"{_ROLES[name]}: they never catch up, raise the throttle"
        for (broker, name), load in sorted(loads.items())
        if 0 < load >= limits[broker, name]
    ]


_ROLES = {
    LEADER_RATE: "that are written to the partitions it leads and sends away",
    FOLLOWER_RATE: "that are written to the partitions it receives",
    LOG_DIRS_RATE: "that are written to the partitions it moves between log directories",
}


def _moving(moves: Iterable[Move]) -> Iterator[Move]:
    """Those that copy a partition to another broker, or will."""
    return (move for move in moves if move.state not in ENDED and move.state != "placing" and move.adding)


def _placing(moves: Iterable[Move]) -> Iterator[Move]:
    """Those that copy a replica to another log directory, or will."""
    return (move for move in moves if move.state not in ENDED and _moves_dirs(move))


def _moves_dirs(move: Move) -> list[int]:
    # A new replica, too: it may be made elsewhere and then moved to its log directory, as Kafka's tool expects.
    return [broker for broker in move.receiving if broker in move.placements]


def _rates(need: Need) -> Iterator[tuple[int, str, int]]:
    """Broker, name and rate of what a request limits."""
    if need.throttle is not None:
        brokers = {broker for move in _moving(need.moves) for broker in (*move.before, *move.adding)}
        yield from (
            (broker, name, need.throttle) for broker in brokers for name in (LEADER_RATE, FOLLOWER_RATE)
        )
    if need.log_dir_throttle is not None:
        brokers = {broker for move in _placing(need.moves) for broker in _moves_dirs(move)}
        yield from ((broker, LOG_DIRS_RATE, need.log_dir_throttle) for broker in brokers)


def _listed(value: str | None) -> list[str]:
    """The entries of a topic's list; duplicates are Kafka's to judge."""
    return [text for entry in (value or "").split(",") if (text := entry.strip())]


def _texts(replicas: Iterable[tuple[int, int]]) -> list[str]:
    return [f"{partition}:{broker}" for partition, broker in sorted(replicas)]


def _judged(held: ConfigOverride, value: str | None) -> ConfigOverride:
    """What is held, by what Kafka has."""
    if held.externally_modified:
        return held
    if value == held.value:
        return updated(held, earlier=()) if held.earlier else held
    if value in held.earlier:
        return held
    return updated(held, externally_modified=True, earlier=())


def _target(held: ConfigOverride, wish: Rate | Replicas | None) -> str | None:
    return held.original if wish is None else wish.value(held)


def _aimed(held: ConfigOverride, wish: Rate | Replicas | None) -> ConfigOverride | None:
    """The next override; None: the former value is restored."""
    if held.externally_modified:
        return None if wish is None else held
    target = _target(held, wish)
    requests = wish.requests if isinstance(wish, Replicas) else ()
    if target != held.value:
        earlier = (*(value for value in held.earlier if value not in (target, held.value)), held.value)
        return updated(held, value=target, earlier=earlier, requests=requests)
    if wish is None and not held.earlier:
        return None
    return held if held.requests == requests else updated(held, requests=requests)


def _is_late(held: ConfigOverride | None, wish: Rate | Replicas | None) -> bool:
    """Whether a value must change whose broker does not answer."""
    if held is None:
        return True
    if held.externally_modified:
        return wish is None
    return bool(held.earlier) or wish is None or _target(held, wish) != held.value


def _told_foreign(keys: Collection[Key], values: Mapping[Key, str | None]) -> list[str]:
    by_value: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for key in keys:
        by_value[key.kind, key.name, values[key]].append(key.resource)
    return [
        f"{name} of {kind} {listed(sorted(resources), _SHOWN)} was changed by somebody else, and stays "
        f"{'deleted' if value is None else value[:_MAX_TOLD]}{'…' if len(value or '') > _MAX_TOLD else ''}"
        for (kind, name, value), resources in by_value.items()
    ]
