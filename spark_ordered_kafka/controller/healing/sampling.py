"""Samples of a cluster for self-healing: two requests for metadata, and one to each broker that is up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_ordered_kafka.controller.healing.observation import Directory, ObservedBroker
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import (
    LogDir,
    LogDirAnswers,
    PartitionDescription,
    PartitionId,
    TopicDescription,
    local_replicas,
)

# Part of a new rate in the mean: at the usual interval the mean follows a load within some minutes.
_WEIGHT = 0.2


@dataclass(frozen=True)
class Sample:
    """``at`` is monotonic, in seconds. ``sizes`` and ``rates`` (bytes per second, a moving mean) are by partition.

    ``ongoing``: partitions that Kafka reassigns. ``leaders``: broker by partition.
    """

    at: float
    brokers: tuple[ObservedBroker, ...]
    displaced: int
    ongoing: int
    leaders: Mapping[PartitionId, int] = field(default_factory=dict)
    sizes: Mapping[PartitionId, int] = field(default_factory=dict)
    rates: Mapping[PartitionId, float] = field(default_factory=dict)


class Sampler:
    """Reads samples. ``timeout`` (seconds) is for each call; ``clock`` is monotonic, in seconds."""

    def __init__(self, admin: KafkaAdmin, timeout: float, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._log_dirs = LogDirs(admin.requests, timeout=timeout)
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._clock = clock

    def sample(self, before: Sample | None) -> Sample:
        """A sample of the whole cluster; rates take two. Raises RequestError and UnavailableError when no broker answers."""
        alive = [broker.id for broker in self._admin.brokers()]
        topics = self._admin.describe_topics()
        ongoing = len(self._reassignments.all_ongoing())
        at = self._clock()
        answers = self._log_dirs.describe(alive)
        return sample_of(at, alive, topics, answers, ongoing, before)


def sample_of(
    at: float,
    alive: Sequence[int],
    topics: Mapping[str, TopicDescription],
    answers: LogDirAnswers,
    ongoing: int,
    before: Sample | None,
) -> Sample:
    """The sample that answers of Kafka make. PURE."""
    rows = [(topic.topic, row) for topic in topics.values() for row in topic.partitions]
    leaders = {(topic, row.partition): row.leader for topic, row in rows if row.leader >= 0}
    held = local_replicas(answers)
    sizes = {
        tp: found.size
        for tp, leader in leaders.items()
        if (found := held.get((*tp, leader))) is not None and found.path is not None
    }
    rates = _rates(at, leaders, sizes, before)
    written: dict[int, list[float]] = defaultdict(list)
    for tp, rate in rates.items():
        written[leaders[tp]].append(rate)
    hosted = Counter(broker for _, row in rows for broker in row.replicas)
    led = Counter(leaders.values())
    preferred = Counter(row.replicas[0] for _, row in rows)
    directories = {broker: _directories(answers.get(broker)) for broker in {*alive, *hosted}}
    is_known = {
        broker: before is not None and found is not None and (led[broker] == 0 or broker in written)
        for broker, found in directories.items()
    }
    brokers = tuple(
        ObservedBroker(
            broker,
            alive=broker in alive,
            hosted=hosted[broker],
            leaders=led[broker],
            preferred=preferred[broker],
            write_rate=float(round(sum(written[broker]))) if is_known[broker] else None,
            directories=directories[broker],
        )
        for broker in sorted(directories)
    )
    displaced = sum(_displaced(row) for _, row in rows)
    return Sample(at, brokers, displaced, ongoing, leaders, sizes, rates)


def _displaced(row: PartitionDescription) -> bool:
    return 0 <= row.leader != row.replicas[0] and row.replicas[0] in row.isr


def _rates(
    at: float,
    leaders: Mapping[PartitionId, int],
    sizes: Mapping[PartitionId, int],
    before: Sample | None,
) -> dict[PartitionId, float]:
    """Growth of the leaders' logs. A log that shrinks, by retention, keeps its rate, and so does one whose size is not known."""
    if before is None or at <= before.at:
        return {}
    rates = {}
    for tp, leader in leaders.items():
        known, size, old = before.rates.get(tp), sizes.get(tp), before.sizes.get(tp)
        if before.leaders.get(tp) != leader or size is None or old is None:
            rate = known
        else:
            grown = (size - old) / (at - before.at)
            rate = known if grown < 0 else grown if known is None else known + _WEIGHT * (grown - known)
        if rate is not None:
            rates[tp] = rate
    return rates


def _directories(answer: Sequence[LogDir] | OrderedKafkaError | None) -> tuple[Directory, ...] | None:
    if answer is None or isinstance(answer, OrderedKafkaError):
        return None
    return tuple(
        Directory(
            one.path,
            online=one.online,
            used=sum(replica.size for replica in one.replicas),
            free=one.usable_bytes,
            total=one.total_bytes,
            cordoned=one.is_cordoned,
        )
        for one in answer
    )
