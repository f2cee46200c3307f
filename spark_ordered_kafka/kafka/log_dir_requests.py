"""The brokers' log directories: what they hold, and moving replicas between those of one broker (KIP-113)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, refusal
from spark_ordered_kafka.kafka.rows import as_refusal, ask_each, by_topic, chunks
from spark_ordered_kafka.kafka.values import DirReplica, LogDir, Replica

_UNKNOWN = -1


class LogDirs:
    """Log directories of one cluster's brokers, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        timeout: seconds for each call that gives none of its own. A broker that hangs takes all of them, whatever the others
            answer.
    """

    def __init__(self, requests: BrokerRequests, *, timeout: float = 30.0) -> None:
        self._requests = requests
        self._timeout = timeout

    def describe(
        self,
        brokers: Collection[int],
        topics: Mapping[str, Collection[int]] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, list[LogDir] | OrderedKafkaError]:
        """The log directories of each broker in the order of its answer (DescribeLogDirs), all asked at the same time.

        A broker that has no answer has its error instead: RequestError BROKER_NOT_AVAILABLE if it is not alive,
        UnavailableError if it does not answer in time, RequestError CLUSTER_AUTHORIZATION_FAILED. A partition of
        ``topics`` that a broker does not have lacks there.

        Args:
            topics: the partitions to look for, by topic; None: all. Directories without any of them are listed, too.
        """
        return self.describe_each(dict.fromkeys(brokers, topics), timeout=timeout)

    def describe_each(
        self,
        wanted: Mapping[int, Mapping[str, Collection[int]] | None],
        *,
        timeout: float | None = None,
    ) -> dict[int, list[LogDir] | OrderedKafkaError]:
        """As :meth:`describe`, with partitions of its own for each broker."""
        questions = {broker: partial(self._describe, broker, topics) for broker, topics in wanted.items()}
        return ask_each(self._requests, questions, self._seconds(timeout), "describe log directories")

    def alter(
        self, moves: Mapping[Replica, str], *, timeout: float | None = None
    ) -> dict[Replica, RequestError]:
        """Have brokers move replicas to log directories of theirs (AlterReplicaLogDirs); those that are refused.

        A broker copies a replica that it has, beside what else it does: :meth:`describe` shows the temporary one.
        Naming the directory where the current one is ends that. Of a replica that a broker does not have
        (REPLICA_NOT_AVAILABLE) it remembers, until it restarts, in which directory to make it. Asking twice does no harm.

        Args:
            moves: (topic, partition, broker) -> absolute path of the directory.

        Returns:
            What failed: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for one that is offline, REPLICA_NOT_AVAILABLE,
            CLUSTER_AUTHORIZATION_FAILED; BROKER_NOT_AVAILABLE for a broker that is not alive, REQUEST_TIMED_OUT for one
            that did not answer.
        """
        by_broker: dict[int, dict[Replica, str]] = defaultdict(dict)
        for replica, path in moves.items():
            by_broker[replica[2]][replica] = path
        questions = {broker: partial(self._alter, broker, asked) for broker, asked in by_broker.items()}
        answers = ask_each(
            self._requests, questions, self._seconds(timeout), "move replicas to log directories"
        )
        failures: dict[Replica, RequestError] = {}
        for broker, answer in answers.items():
            if isinstance(answer, OrderedKafkaError):
                failures |= dict.fromkeys(by_broker[broker], as_refusal(answer))
            else:
                failures |= answer
        return failures

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout

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
                        place = f"{found.topic_name}-{row.partition_index}"
                        what = f"move the replica of {place} on broker {broker} to another log directory"
                        replica = (found.topic_name, row.partition_index, broker)
                        failures[replica] = refusal(row.error_code, None, what)
        return failures


def _description_requests(topics: Mapping[str, Collection[int]] | None) -> list[Any]:
    if topics is None:
        return [DescribeLogDirsRequest(topics=None)]
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    places = [(topic, partition) for topic, partitions in topics.items() for partition in partitions]
    # Without any partition the directories alone are described.
    return [
        DescribeLogDirsRequest(
            topics=[asked(topic=topic, partitions=numbers) for topic, numbers in by_topic(chunk).items()]
        )
        for chunk in (list(chunks(places)) or [[]])
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
                    for topic, numbers in by_topic(places).items()
                ],
            )
            for path, places in by_path.items()
        ]
    )
