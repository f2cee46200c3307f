"""How far replicas are behind their leaders (KIP-179 replicaStatus)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import (
    ReplicaSelection,
    Selected,
    not_hosted,
)
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.replica_ends import BrokerEnds, ReplicaEnds

UNKNOWN_LAG = -1


class ReplicaLags:
    """Compares where followers end with where their leaders do.

    The lag in a follower's log directory is always 0: it is measured against a high watermark that never passes the
    follower's own end. ``clock`` is that of ``ends``, in seconds since the epoch.
    """

    def __init__(self, selection: ReplicaSelection, ends: ReplicaEnds, clock: Callable[[], float]) -> None:
        self._selection = selection
        self._ends = ends
        self._clock = clock

    def status(
        self, topics: Collection[str], partitions: Collection[int], brokers: Collection[int]
    ) -> schemas.ReplicaStatusList:
        """Replicas and their lags; an unknown lag is -1, and its row has the error. All brokers are asked at the same time.

        Filters and errors are those of :meth:`ReplicaSelection.replicas`.
        """
        selected = list(self._selection.replicas(topics, partitions, brokers))
        asked: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for row in selected:
            if row.hosted:
                asked[row.broker].add(row.tp)
                if row.leader != NO_LEADER:
                    asked[row.leader].add(row.tp)
        answers = self._ends.read(asked)
        now = self._clock()
        rows = [_status(row, answers, now) for row in selected]
        return schemas.ReplicaStatusList(
            status_time=min((row.status_time for row in rows), default=_milliseconds(now)),
            lag=_largest([row.lag for row in rows]),
            replicas=rows,
        )


def _status(
    row: Selected, answers: Mapping[int, BrokerEnds | OrderedKafkaError], now: float
) -> schemas.ReplicaStatus:
    ids = {"topic": row.topic, "partition": row.partition, "broker": row.broker}
    try:
        if not row.hosted:
            raise not_hosted(row.tp, row.broker)
        end, read_at = _end(answers[row.broker], row)
        if row.leader == NO_LEADER:
            raise RequestError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"partition {row.topic}-{row.partition} has no leader"
            )
        leader_end, _ = _end(answers[row.leader], row)
    except OrderedKafkaError as error:
        fields = {**ids, "status_time": _milliseconds(now), "lag": UNKNOWN_LAG}
        return result(schemas.ReplicaStatus, error, **fields)
    # A follower that answered later may have got further than its leader had.
    lag = max(0, leader_end - end)
    return schemas.ReplicaStatus.model_validate({**ids, "status_time": _milliseconds(read_at), "lag": lag})


def _end(answer: BrokerEnds | OrderedKafkaError, row: Selected) -> tuple[int, float]:
    if isinstance(answer, OrderedKafkaError):
        raise answer
    end = answer.ends[row.tp]
    if isinstance(end, RequestError):
        raise end
    return end, answer.read_at


def _largest(lags: Collection[int]) -> int:
    """The largest lag; unknown if one of them is, since any figure could be taken for the largest."""
    return UNKNOWN_LAG if UNKNOWN_LAG in lags else max(lags, default=UNKNOWN_LAG)


def _milliseconds(seconds: float) -> int:
    return int(1000 * seconds)
