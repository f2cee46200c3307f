"""Samples of the load: log ends, sizes and committed offsets of topics, and the rates between two samples."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.autoscale.load import GroupLoad, HotKey
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.groups import ConsumerGroups, GroupDescription
from spark_ordered_kafka.kafka.leader_logs import LeaderLog, LeaderLogs
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.sampling import newest_keys

_log = logging.getLogger(__name__)
_KEY_RECORDS = 4000
_HASH_LENGTH = 12


@dataclass(frozen=True)
class Sample:
    """Logs of all topics at ``at`` (monotonic seconds), by topic and live partition, and consumer groups by name.

    What could not be read is missing.
    """

    at: float
    logs: Mapping[str, Mapping[int, LeaderLog]]
    groups: Mapping[str, GroupDescription]


class Sampler:
    """Reads samples. ``timeout`` (seconds) is for each call; ``clock`` is monotonic, in seconds."""

    def __init__(self, admin: KafkaAdmin, timeout: float, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._logs = LeaderLogs(admin.requests, timeout=timeout)
        self._groups = ConsumerGroups(admin.requests, timeout=timeout)
        self._timeout = timeout
        self._clock = clock

    def sample(self, counts: Mapping[str, int], groups: Collection[str]) -> Sample:
        """A sample of the partitions of ``counts`` (topic -> live partitions), in one request per broker, and of groups.

        Raises RequestError and UnavailableError when no broker answers.
        """
        at = self._clock()
        described = self._admin.describe_topics(list(counts))
        leaders = {
            (topic, row.partition): row.leader
            for topic, found in described.items()
            for row in found.partitions[: counts[topic]]
            if row.leader != NO_LEADER
        }
        logs: dict[str, dict[int, LeaderLog]] = {topic: {} for topic in counts}
        for (topic, partition), log in self._logs.describe_all(leaders).items():
            logs[topic][partition] = log
        return Sample(at, logs, self._describe(groups))

    def _describe(self, groups: Collection[str]) -> dict[str, GroupDescription]:
        found = {}
        for group in groups:
            try:
                description = self._groups.describe(group)
            except OrderedKafkaError as error:
                _log.info("group %s cannot be observed: %s", group, error)
                continue
            if description is not None:
                found[group] = description
        return found

    def hot_key(self, topic: str, partition: int, log: LeaderLog) -> HotKey | None:
        """The most frequent key among the newest records of a partition; None when none of them has a key.

        The key is shown as a hash, since keys may be personal data (D-293). Raises RequestError and UnavailableError.
        """
        first = max(log.start, log.end - _KEY_RECORDS)
        keys, records = newest_keys(
            self._admin.requests.properties, topic, partition, first, log.end, timeout=self._timeout
        )
        if not keys:
            return None
        key, count = Counter(keys).most_common(1)[0]
        shown = f"one key (SHA-256 {hashlib.sha256(key).hexdigest()[:_HASH_LENGTH]}…)"
        return HotKey(partition, count / records, shown)


def write_rates(
    before: Sample, after: Sample, topic: str, count: int
) -> tuple[list[float], list[float]] | None:
    """Bytes and records written per second, by partition; None while some partition lacks two samples.

    A record has as many bytes as those of its log have on average: sizes alone also shrink, by retention.
    """
    old, new = before.logs.get(topic, {}), after.logs.get(topic, {})
    if not all(p in old and p in new for p in range(count)) or after.at <= before.at:
        return None
    seconds = after.at - before.at
    records = [max(0, new[p].end - old[p].end) / seconds for p in range(count)]
    usual = _mean_bytes([new[p] for p in range(count)])
    means = [_mean_bytes([new[p]]) or usual for p in range(count)]
    return [rate * mean for rate, mean in zip(records, means, strict=True)], records


def group_load(before: Sample, after: Sample, topic: str, group: str, count: int) -> GroupLoad | None:
    """What a group reads of the live partitions; None while it lacks two samples, or has committed nothing."""
    old, new = before.groups.get(group), after.groups.get(group)
    logs, former = after.logs.get(topic, {}), before.logs.get(topic, {})
    if old is None or new is None or after.at <= before.at or len(logs) < count:
        return None
    earlier, later = old.committed.get(topic, {}), new.committed.get(topic, {})
    if not later:
        return None
    seconds = after.at - before.at
    lag, read = [], []
    for partition in range(count):
        log, now = logs[partition], later.get(partition)
        first = former.get(partition, log).start
        lag.append(float(max(0, log.end - max(log.start, 0 if now is None else now.offset))))
        # What retention has deleted meanwhile was not read.
        was = earlier.get(partition)
        start = first if was is None else max(first, was.offset)
        read.append(0.0 if now is None else max(0, now.offset - start) / seconds)
    assigned = {member.consumer_id for (name, _), member in new.members.items() if name == topic}
    return GroupLoad(lag, read, len(assigned) if new.members else new.member_count)


def _mean_bytes(logs: Sequence[LeaderLog]) -> float:
    known = [(log.size, log.end - log.start) for log in logs if log.size is not None]
    records = sum(held for _, held in known)
    return sum(size for size, _ in known) / records if records else 0.0
