"""Log directories of brokers and what is in them (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.log_dirs.move_plan import missing
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import (
    ReplicaSelection,
    Selected,
    known_are,
    not_hosted,
)
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs, by_broker
from spark_ordered_kafka.kafka.requests import refusal
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDir,
    LogDirAnswers,
    Replica,
    local_replicas,
)
from spark_ordered_kafka.updates import updated


class LogDirService:
    """Reads log directories. Rows of a broker that does not answer have its error.

    Filters and refusals are those of :class:`ReplicaSelection`. ``timeout`` is in seconds, for the brokers' answers; None: that
    of ``reading``, which is short, since callers wait for a broker that hangs.
    """

    def __init__(self, selection: ReplicaSelection, reading: LogDirs) -> None:
        self._selection = selection
        self._reading = reading

    def describe(
        self,
        brokers: Collection[int],
        paths: Collection[str],
        topics: Collection[str],
        *,
        timeout: float | None = None,
    ) -> schemas.LogDirList:
        """Log directories and their replicas, in the order of the brokers' answers.

        Each of ``paths`` has a row for each broker that answers, LOG_DIR_NOT_FOUND if the broker has no such directory.
        Raises RequestError INVALID_REQUEST for a path that is not absolute.
        """
        for path in paths:
            if not path.startswith("/") or "\0" in path:
                raise invalid_request(f"log_dir has the value {path[:250]!r}: an absolute path is needed")
        wanted = None
        if topics:
            found = self._selection.topics(topics)
            wanted = {topic: range(len(row.partitions)) for topic, row in found.items()}
        answers = self._reading.describe(self._selection.brokers(brokers), wanted, timeout=timeout)
        return schemas.LogDirList(
            brokers=[_broker_view(broker, answer, paths) for broker, answer in answers.items()]
        )

    def replicas(
        self,
        topics: Collection[str],
        partitions: Collection[int],
        brokers: Collection[int],
        *,
        timeout: float | None = None,
    ) -> schemas.ReplicaLogDirList:
        """Current and future log directories of replicas (describeReplicaLogDirs)."""
        selected = list(self._selection.replicas(topics, partitions, brokers))
        answers = self._reading.describe_each(
            by_broker((row.topic, row.partition, row.broker) for row in selected if row.hosted),
            timeout=timeout,
        )
        held = local_replicas(answers)
        return schemas.ReplicaLogDirList(replicas=[_replica_view(row, answers, held) for row in selected])


def _broker_view(
    broker: int, answer: Sequence[LogDir] | OrderedKafkaError, paths: Collection[str]
) -> schemas.BrokerLogDirs:
    if isinstance(answer, OrderedKafkaError):
        return result(schemas.BrokerLogDirs, answer, broker=broker, log_dirs=[])
    rows = [_dir_view(broker, row) for row in answer if not paths or row.path in paths]
    known = [row.path for row in answer]
    rows += [_unknown_dir_view(broker, path, known) for path in dict.fromkeys(paths) if path not in known]
    return schemas.BrokerLogDirs(broker=broker, log_dirs=rows)


def _unknown_dir_view(broker: int, path: str, known: Sequence[str]) -> schemas.LogDirView:
    error = RequestError(
        ErrorCode.LOG_DIR_NOT_FOUND,
        f"broker {broker} has no log directory {path[:250]!r}: {known_are(known)}",
    )
    return result(schemas.LogDirView, error, path=path, is_live=False, partitions=[])


def _dir_view(broker: int, row: LogDir) -> schemas.LogDirView:
    view = schemas.LogDirView(
        path=row.path,
        is_live=row.online,
        is_cordoned=row.is_cordoned,
        total_bytes=row.total_bytes,
        usable_bytes=row.usable_bytes,
        partitions=[
            schemas.LogDirReplica(
                topic=replica.topic,
                partition=replica.partition,
                size=replica.size,
                offset_lag=replica.offset_lag,
                is_temporary=replica.is_future,
            )
            for replica in row.replicas
        ],
    )
    if view.is_live:
        return view
    error = refusal(row.error_code, None, f"log directory {row.path} of broker {broker}")
    return updated(view, error_code=int(error.code), error=error.name, error_message=error.message)


def _replica_view(
    row: Selected, answers: LogDirAnswers, held: Mapping[Replica, LocalReplica]
) -> schemas.ReplicaLogDirView:
    one = held.get((row.topic, row.partition, row.broker), NO_REPLICA)
    is_there, is_moving = one.path is not None, one.future_path is not None
    fields: dict[str, object] = {
        "topic": row.topic,
        "partition": row.partition,
        "broker": row.broker,
        "current_replica_log_dir": one.path,
        "current_replica_size": one.size if is_there else None,
        "temporary_replica_log_dir": one.future_path,
        "temporary_replica_size": one.future_size if is_moving else None,
        "temporary_replica_offset_lag": one.future_lag if is_moving else None,
    }
    if is_there:
        return schemas.ReplicaLogDirView.model_validate(fields)
    return result(schemas.ReplicaLogDirView, _absence(row, answers), **fields)


def _absence(row: Selected, answers: LogDirAnswers) -> OrderedKafkaError:
    if not row.hosted:
        return not_hosted(row.tp, row.broker)
    answer = answers[row.broker]
    return answer if isinstance(answer, OrderedKafkaError) else missing(row.tp, row.broker, answer)
