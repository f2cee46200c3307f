"""The brokers' log directories: what they hold, and moving replicas between those of one broker (KIP-113)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.requests import BrokerCalls, broker_error, refusal
from spark_ordered_kafka.kafka.rows import as_refusal, ask_each, by_topic, chunks
from spark_ordered_kafka.kafka.values import (
    DirReplica,
    LogDir,
    LogDirAnswers,
    Replica,
    are_cordoned,
    local_replicas,
)

_UNKNOWN = -1


class LogDirs(BrokerCalls):
    """Log directories of one cluster's brokers.

    While one broker hangs, a call takes the whole timeout.
    """

    def describe(
        self,
        brokers: Collection[int],
        topics: Mapping[str, Collection[int]] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, list[LogDir] | OrderedKafkaError]:
        """The log directories of each broker in the order of its answer (DescribeLogDirs), all asked at the same time.

        A broker without an answer has an error instead: RequestError BROKER_NOT_AVAILABLE if it is not alive,
        UnavailableError if it does not answer in time, RequestError CLUSTER_AUTHORIZATION_FAILED. The result lacks
        partitions of ``topics`` that a broker does not have.

        Args:
            topics: the partitions to look for, by topic; None: all. Directories without any of them are listed, too.
        """
        return self.describe_each(dict.fromkeys(brokers, topics), timeout=timeout)

    def describe_each(
        self, wanted: Mapping[int, Mapping[str, Collection[int]] | None], *, timeout: float | None = None
    ) -> dict[int, list[LogDir] | OrderedKafkaError]:
        """As :meth:`describe`, with partitions of its own for each broker."""
        questions = {broker: partial(self._describe, broker, topics) for broker, topics in wanted.items()}
        seconds = self._timeout if timeout is None else timeout
        return ask_each(self._requests, questions, seconds, "describe log directories")

    def cordoned(self, brokers: Collection[int]) -> frozenset[int]:
        """Those of ``brokers`` that are to get no replicas (KIP-1066), as far as they answer in time."""
        answers = self.describe(brokers, {})
        return frozenset(
            broker
            for broker, answer in answers.items()
            if not isinstance(answer, OrderedKafkaError) and are_cordoned(answer)
        )

    def sizes(self, replicas: Iterable[Replica]) -> dict[Replica, int]:
        """Bytes of the logs of replicas, (topic, partition, broker). One that its broker does not have lacks.

        Raises:
            RequestError: the log directories may not be described.
            UnavailableError: a broker does not answer.
        """
        answers = self.describe_each(by_broker(replicas))
        for answer in answers.values():
            _check(answer)
        return current_sizes(answers)

    def alter(self, moves: Mapping[Replica, str]) -> dict[Replica, RequestError]:
        """Start moving replicas to other log directories of their brokers (AlterReplicaLogDirs); returns the failures.

        A broker copies the replica in the background: :meth:`describe` shows the temporary one. Naming the current
        directory cancels that. For a replica that it does not have (REPLICA_NOT_AVAILABLE) a broker remembers the
        directory until it restarts, and creates the replica there. Asking twice does no harm.

        Args:
            moves: (topic, partition, broker) -> absolute path of the directory.

        Returns:
            Failures: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for one that is offline, REPLICA_NOT_AVAILABLE,
            CLUSTER_AUTHORIZATION_FAILED; BROKER_NOT_AVAILABLE for a broker that is not alive, REQUEST_TIMED_OUT for one
            that did not answer.
        """
        asked_of: dict[int, dict[Replica, str]] = defaultdict(dict)
        for replica, path in moves.items():
            asked_of[replica[2]][replica] = path
        questions = {broker: partial(self._alter, broker, asked) for broker, asked in asked_of.items()}
        answers = ask_each(self._requests, questions, self._timeout, "move replicas to log directories")
        failures: dict[Replica, RequestError] = {}
        for broker, answer in answers.items():
            if isinstance(answer, OrderedKafkaError):
                failures |= dict.fromkeys(asked_of[broker], as_refusal(answer))
            else:
                failures |= answer
        return failures

    async def _describe(
        self, broker: int, topics: Mapping[str, Collection[int]] | None, deadline: float
    ) -> list[LogDir]:
        found: dict[str, LogDir] = {}
        for request in _description_requests(topics):
            response = await self._requests.send(request, broker, deadline)
            if response.error_code != 0:
                raise broker_error(response.error_code, f"broker {broker}")
            for result in response.results:
                found[result.log_dir] = _merged(found.get(result.log_dir), result)
        return list(found.values())

    async def _alter(
        self, broker: int, moves: Mapping[Replica, str], deadline: float
    ) -> dict[Replica, RequestError]:
        failures: dict[Replica, RequestError] = {}
        for chunk in chunks(moves):
            response = await self._requests.send(_alteration(chunk, moves), broker, deadline)
            for found in response.results:
                for row in found.partitions:
                    if row.error_code != 0:
                        name = f"{found.topic_name}-{row.partition_index}"
                        what = f"move the replica of {name} on broker {broker} to another log directory"
                        replica = (found.topic_name, row.partition_index, broker)
                        failures[replica] = refusal(row.error_code, None, what)
        return failures


def by_broker(replicas: Iterable[Replica]) -> dict[int, dict[str, set[int]]]:
    """Their partitions by broker and topic."""
    wanted: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for topic, partition, broker in replicas:
        wanted[broker][topic].add(partition)
    return wanted


def current_sizes(answers: LogDirAnswers) -> dict[Replica, int]:
    """Bytes of the replicas that brokers have reported, but for temporary ones."""
    return {replica: held.size for replica, held in local_replicas(answers).items() if held.path is not None}


def _check(answer: list[LogDir] | OrderedKafkaError) -> None:
    """Raises what a broker answered instead of its directories; one that is offline holds no replica in use."""
    if isinstance(answer, OrderedKafkaError):
        # One that has just died leads nothing any more in a moment.
        raise UnavailableError(str(answer)) if answer.code == ErrorCode.BROKER_NOT_AVAILABLE else answer
    for directory in answer:
        if directory.error_code not in (0, ErrorCode.KAFKA_STORAGE_ERROR):
            raise refusal(directory.error_code, None, f"read log directory {directory.path}")


def _description_requests(topics: Mapping[str, Collection[int]] | None) -> list[Any]:
    if topics is None:
        return [DescribeLogDirsRequest(topics=None)]
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    tps = [(topic, partition) for topic, partitions in topics.items() for partition in partitions]
    # Without any partition the directories alone are described.
    return [
        DescribeLogDirsRequest(
            topics=[asked(topic=topic, partitions=numbers) for topic, numbers in by_topic(chunk).items()]
        )
        for chunk in (list(chunks(tps)) or [[]])
    ]


def _merged(known: LogDir | None, result: Any) -> LogDir:
    """A directory with what one answer says, after ``known`` of an earlier one."""
    replicas = tuple(
        DirReplica(
            topic=found.name,
            partition=row.partition_index,
            size=row.partition_size,
            offset_lag=row.offset_lag,
            is_future=row.is_future_key,
        )
        for found in result.topics
        for row in found.partitions
    )
    return LogDir(
        path=result.log_dir,
        error_code=result.error_code,
        replicas=replicas if known is None else known.replicas + replicas,
        total_bytes=None if result.total_bytes == _UNKNOWN else result.total_bytes,
        usable_bytes=None if result.usable_bytes == _UNKNOWN else result.usable_bytes,
        is_cordoned=result.is_cordoned,
    )


def _alteration(replicas: Sequence[Replica], paths: Mapping[Replica, str]) -> Any:
    asked = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    by_path: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for topic, partition, broker in replicas:
        by_path[paths[topic, partition, broker]].append((topic, partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            asked(
                path=path,
                topics=[
                    asked.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic(tps).items()
                ],
            )
            for path, tps in by_path.items()
        ]
    )
