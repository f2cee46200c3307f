"""What leaders say about the logs of a topic's partitions, each for itself: one that is down leaves out its own alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafka.protocol.consumer import OffsetSpec

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.kafka.leaders import list_offsets
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs, current_sizes
from spark_ordered_kafka.kafka.requests import BrokerCalls, BrokerRequests
from spark_ordered_kafka.kafka.rows import ask_each, chunks

_WHAT = "read the logs of topic {!r}"


@dataclass(frozen=True)
class LeaderLog:
    """Log start and end offset; ``size`` in bytes, None if not known."""

    start: int
    end: int
    size: int | None


class LeaderLogs(BrokerCalls):
    """A broker that hangs takes the timeout of a call twice."""

    def __init__(self, requests: BrokerRequests, timeout: float) -> None:
        super().__init__(requests, timeout)
        self._log_dirs = LogDirs(requests, timeout=timeout)

    def describe(self, topic: str, leaders: Mapping[int, int]) -> dict[int, LeaderLog]:
        """By partition; ``leaders`` maps partition -> broker id. Those whose leader does not answer, or leads no more, lack.

        Raises:
            RequestError: the topic may not be described.
        """
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition, leader in leaders.items():
            by_leader[leader].append(partition)
        questions = {
            leader: partial(self._offsets, topic, partitions, leader)
            for leader, partitions in by_leader.items()
        }
        answers = ask_each(self._requests, questions, self._timeout, _WHAT.format(topic))
        found = {p: log for answer in answers.values() for p, log in _known(answer).items()}
        answering = {leaders[p]: {topic: by_leader[leaders[p]]} for p in found}
        sizes = current_sizes(self._log_dirs.describe_each(answering))
        return {
            p: LeaderLog(start, end, sizes.get((topic, p, leaders[p]))) for p, (start, end) in found.items()
        }

    async def _offsets(
        self, topic: str, partitions: Sequence[int], leader: int, deadline: float
    ) -> dict[int, tuple[int, int]]:
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        # Starts first: a start that moves meanwhile never passes an end that is read after it.
        for spec, found in ((OffsetSpec.EARLIEST, starts), (OffsetSpec.LATEST, ends)):
            for chunk in chunks(partitions):
                request = list_offsets({topic: [(partition, -1) for partition in chunk]}, spec)
                response = await self._requests.send(request, leader, deadline)
                rows = (row for answered in response.topics for row in answered.partitions)
                found |= {row.partition_index: row.offset for row in rows if row.error_code == 0}
        return {p: (start, ends[p]) for p, start in starts.items() if p in ends}


def _known(answer: dict[int, tuple[int, int]] | OrderedKafkaError) -> dict[int, tuple[int, int]]:
    if not isinstance(answer, OrderedKafkaError):
        return answer
    if answer.retriable or answer.code == ErrorCode.BROKER_NOT_AVAILABLE:
        return {}
    raise answer
