"""What a judge keeps of each client of a program, and of what was produced. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from spark_ordered_kafka.errors import ConfigError, RequestError

Tp = tuple[str, int]


class Record(NamedTuple):
    """A record of a log."""

    topic: str
    partition: int
    offset: int
    key: str | None
    number: str

    @property
    def tp(self) -> Tp:
        """Its partition."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"record {self.number!r} of key {self.key!r} ({self.topic}-{self.partition} at {self.offset})"


class State(Enum):
    """Whether the group has committed a record."""

    OPEN = auto()
    MAYBE = auto()
    DONE = auto()


class Fate(Enum):
    """Whether a produced record is to be read."""

    THERE = auto()
    NOT_THERE = auto()
    UNKNOWN = auto()


def read_logs(
    logs: Mapping[str, Sequence[Record]],
) -> tuple[dict[str, Record], dict[str, list[str]], list[str]]:
    """Records by number, those of the same key before each, and what is wrong with the logs."""
    found, earlier, wrong = dict[str, Record](), dict[str, list[str]](), list[str]()
    for records in logs.values():
        before: dict[str, list[str]] = defaultdict(list)
        for record in records:
            if record.number in found:
                wrong.append(f"{record} is there twice: also {found[record.number]}")
            found[record.number] = record
            if record.key is not None:
                earlier[record.number] = list(before[record.key])
                before[record.key].append(record.number)
    return found, earlier, wrong


class Holders:
    """Which member that keeps state holds each key, and from which partition: at most one, until it lets go."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], tuple[str, Tp]] = {}

    def take(self, client: str, record: Record) -> tuple[str, Tp] | None:
        """A member gets a record, and holds its key from now on; returns another holder."""
        if record.key is None:
            return None
        key, claim = (record.topic, record.key), (client, record.tp)
        holder = self._claims.get(key, claim)
        self._claims[key] = claim
        return None if holder == claim else holder

    def release(self, client: str, tps: set[Tp] | None = None) -> None:
        """A member lets go of the keys of these partitions, by default of all."""
        for key, (holder, tp) in list(self._claims.items()):
            if holder == client and (tps is None or tp in tps):
                del self._claims[key]


@dataclass
class MemberBook:
    """A consumer.

    Attributes:
        delivered: since it began at what is committed, and not sought back over; ``latest``: the last one that came.
        processed: those of them that count as processed.
        paused: partitions.
        stores: whether only what it stores counts as processed.
        is_slow: whether its group may give its partitions to others before it hears of it.
        commits_last: whether it commits when partitions are taken from it.
        is_lost: whether something delivered has gone to others before it was committed.
        was_rewound: whether what is being produced was made of what comes again.
    """

    auto: bool
    delivered: dict[str, None] = field(default_factory=dict)
    latest: str | None = None
    processed: set[str] = field(default_factory=set)
    paused: set[Tp] = field(default_factory=set)
    is_lost: bool = False
    keeps_state: bool = False
    stores: bool = False
    commits_last: bool = False
    is_slow: bool = False

    def begin_again(self) -> None:
        """At what is committed."""
        self.delivered.clear()
        self.processed.clear()


@dataclass
class ProducerBook:
    """A producer.

    Attributes:
        manual: whether it commits on request only.
        pending: topic and number of what is not committed.
        sent: by consumer what the next commit commits.
        read: consumers that it ever got.
        rewound: consumers that were rewound since the first pending record was produced.
        state: of confluent-kafka's methods, ``unused``, ``ready`` or ``open``.
    """

    manual: bool
    pending: list[tuple[str, str]] = field(default_factory=list)
    sent: dict[str, dict[str, State]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    rewound: set[str] = field(default_factory=set)
    state: str = "unused"

    @property
    def topics(self) -> set[str]:
        """Of what is pending."""
        return {topic for topic, _ in self.pending}

    @property
    def is_unfinished(self) -> bool:
        """Whether what was produced last is not to be committed by ``flush()`` and ``close()``."""
        return self.state == "open" or (self.manual and not self.sent and bool(self.read))

    def begin_again(self) -> None:
        """With another transaction."""
        self.pending.clear()
        self.sent.clear()
        self.rewound.clear()

    def refusal(self, verb: str, consumer: MemberBook | None) -> type[Exception] | None:
        """The error that a step of the producer is to raise, with the consumer that it names."""
        if verb == "init":
            return None if self.manual else ConfigError
        if verb == "begin":
            return None if self.state == "ready" and not self.pending else RequestError
        several = len(self.topics) > 1
        if verb.endswith("transaction"):
            if self.state != "open":
                return RequestError
            if verb == "commit transaction" and several:
                return RequestError
        if verb.startswith("send"):
            if consumer is not None and consumer.auto and not several:
                return ConfigError
            return RequestError if several else None
        committing = verb == "commit all" or (verb in ("flush", "end") and not self.is_unfinished)
        return RequestError if committing and self.sent and several else None


class Productions:
    """What was produced.

    Attributes:
        fates: by number.
        reports: by client, in the order in which they came: number, error, partition and offset.
    """

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.reports: list[tuple[str, Any]] = []
        self._numbers: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)

    def add(self, client: str, topic: str, key: str | None, number: str) -> None:
        """A client has produced a record."""
        self.fates[number] = Fate.UNKNOWN
        self._numbers[client, topic, key].append(number)

    def broken(self, records: Mapping[str, Record], earlier: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Promises that were broken, by what is in the logs; ``earlier`` has the records of the same key before each."""
        for number, fate in self.fates.items():
            there = number in records
            if fate is Fate.THERE and not there:
                yield f"record {number!r} was committed, and is not there"
            if fate is Fate.NOT_THERE and there:
                yield f"{records[number]} was not committed, and is there"
        for number in records.keys() - self.fates.keys():
            yield f"{records[number]} was never produced"
        for (client, topic, key), numbers in self._numbers.items():
            there_of = [n for n in numbers if n in records]
            if key is None or len(there_of) < 2:
                continue
            before = earlier[there_of[-1]]
            order = [n for n in [*before, there_of[-1]] if n in there_of]
            if order != there_of:
                yield f"{client} produced {there_of} of key {key!r} to {topic}, and there is {order}"
        for client, (number, error, partition, offset) in self.reports:
            found = records.get(number)
            if error is None and (found is None or (found.partition, found.offset) != (partition, offset)):
                yield f"{client} reported {number!r} at {partition}, {offset}, and there is {found}"
            if error is not None and found is not None:
                yield f"{client} reported {error!r} of {number!r}, and it is there"
