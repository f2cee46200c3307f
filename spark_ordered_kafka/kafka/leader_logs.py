"""What leaders say about the logs of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.kafka.leaders import list_offsets, read_once_from_leaders
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs, current_sizes
from spark_ordered_kafka.kafka.requests import BrokerCalls, BrokerRequests
from spark_ordered_kafka.kafka.rows import ask_each, by_topic, chunks
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.listed import listed

# Topics in an error.
_SHOWN = 3
_WHAT = "read the logs of topic {!r}"


@dataclass(frozen=True)
class LeaderLog:
    """Log start and end offset; ``size`` in bytes, None if not known."""

    start: int
    end: int
    size: int | None


class LeaderLogs(BrokerCalls):
    """What each leader says for itself: one that is down leaves out its own partitions alone.

    A broker that hangs takes the timeout of a call twice.
    """

    def __init__(self, requests: BrokerRequests, timeout: float) -> None:
        super().__init__(requests, timeout)
        self._log_dirs = LogDirs(requests, timeout=timeout)

    def describe(self, topic: str, leaders: Mapping[int, int]) -> dict[int, LeaderLog]:
        """By partition; ``leaders`` maps partition -> broker id. Those whose leader does not answer, or leads no more, lack.

        Raises:
            RequestError: the topic may not be described.
        """
        tps = {(topic, partition): leader for partition, leader in leaders.items()}
        found = self._describe(tps, _WHAT.format(topic))
        return {partition: log for (_, partition), log in found.items()}

    def describe_all(self, leaders: Mapping[PartitionId, int]) -> dict[PartitionId, LeaderLog]:
        """As :meth:`describe`, for partitions of several topics, each broker being asked for all of its own at once.

        Partitions that may not be described lack, too.
        """
        return self._describe(leaders, "read the logs of topics")

    def _describe(self, leaders: Mapping[PartitionId, int], what: str) -> dict[PartitionId, LeaderLog]:
        by_leader: dict[int, list[PartitionId]] = defaultdict(list)
        for tp, leader in leaders.items():
            by_leader[leader].append(tp)
        questions = {leader: partial(self._offsets, tps, leader) for leader, tps in by_leader.items()}
        answers = ask_each(self._requests, questions, self._timeout, what)
        found = {tp: log for answer in answers.values() for tp, log in _known(answer).items()}
        answering = {leaders[tp]: by_topic(by_leader[leaders[tp]]) for tp in found}
        sizes = current_sizes(self._log_dirs.describe_each(answering))
        return {
            (topic, p): LeaderLog(start, end, sizes.get((topic, p, leaders[topic, p])))
            for (topic, p), (start, end) in found.items()
        }

    async def _offsets(
        self, tps: Sequence[PartitionId], leader: int, deadline: float
    ) -> dict[PartitionId, tuple[int, int]]:
        starts: dict[PartitionId, int] = {}
        ends: dict[PartitionId, int] = {}
        # Starts first: a start that moves meanwhile never passes an end that is read after it.
        for spec, found in ((OffsetSpec.EARLIEST, starts), (OffsetSpec.LATEST, ends)):
            for chunk in chunks(tps):
                asked = {topic: [(p, -1) for p in numbers] for topic, numbers in by_topic(chunk).items()}
                response = await self._requests.send(list_offsets(asked, spec), leader, deadline)
                for answered in response.topics:
                    for row in answered.partitions:
                        if row.error_code == 0:
                            found[answered.name, row.partition_index] = row.offset
        return {tp: (start, ends[tp]) for tp, start in starts.items() if tp in ends}


def _known(
    answer: dict[PartitionId, tuple[int, int]] | OrderedKafkaError,
) -> dict[PartitionId, tuple[int, int]]:
    if not isinstance(answer, OrderedKafkaError):
        return answer
    if answer.retriable or answer.code == ErrorCode.BROKER_NOT_AVAILABLE:
        return {}
    raise answer


def ready_ranges(
    requests: BrokerRequests, partitions: Mapping[str, Collection[int]], deadline: float
) -> dict[PartitionId, tuple[int, int]]:
    """Log start and last stable offset of partitions of several topics, read in this order with as few requests as of one.

    They are read once: raises as :func:`~spark_ordered_kafka.kafka.leaders.read_once_from_leaders`, also for a leader that is
    elected at this moment. ``deadline`` is in ``time.monotonic()`` seconds.
    """
    what = f"read the logs of topics {listed(list(partitions), _SHOWN, repr)}"

    def offsets(spec: OffsetSpec) -> dict[PartitionId, int]:
        # Of log starts, Kafka looks at no isolation level.
        build = partial(list_offsets, spec=spec, isolation=IsolationLevel.READ_COMMITTED)
        rows = read_once_from_leaders(requests, partitions, build, deadline, what)
        return {tp: row.offset for tp, row in rows.items()}

    starts, ends = offsets(OffsetSpec.EARLIEST), offsets(OffsetSpec.LATEST)
    return {tp: (start, ends[tp]) for tp, start in starts.items()}
