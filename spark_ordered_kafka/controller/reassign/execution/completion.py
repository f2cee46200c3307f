"""The end of a request: the election of preferred leaders, and the final record."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from spark_ordered_kafka.client.schemas.reassignments import ReassignmentState
from spark_ordered_kafka.controller.reassign.machine.progress import totals, unmeasured
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord, Sums
from spark_ordered_kafka.errors import RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.elections import elect_preferred
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)


def ended_record(
    record: RequestRecord, moves: Sequence[Move], now: float, warnings: Sequence[str]
) -> RequestRecord:
    """The record of a request whose moves have all ended. A cancel after the end of all moves has no effect. PURE."""
    if record.ended:
        return record
    found = totals(moves)
    state: ReassignmentState = "done"
    if found.states["failed"]:
        state = "failed"
    elif found.states["cancelled"]:
        state = "cancelled"
    sums = Sums(numerator=found.numerator, denominator=found.denominator, states=dict(found.states))
    return updated(record, state=state, ended_at=now, warnings=tuple(warnings), sums=sums)


def unmeasured_replicas(moves: Iterable[Move]) -> dict[int, set[PartitionId]]:
    """Broker -> partitions that it has received, whose moves ended before their bytes could be measured. PURE."""
    found: dict[int, set[PartitionId]] = defaultdict(set)
    for move in moves:
        for broker in unmeasured(move):
            found[broker].add(move.tp)
    return found


def elect_leaders(admin: KafkaAdmin, request_id: int, moves: Sequence[Move], timeout: float) -> bool:
    """Elect the preferred leaders of the moves that are done; False: Kafka did not answer within ``timeout`` seconds.

    Errors are logged.
    """
    try:
        _elect(admin, moves, timeout)
    except UnavailableError as error:
        _log.warning("request %d: preferred leaders are not elected yet: %s", request_id, error)
        return False
    except RequestError as error:
        _log.warning("request %d: preferred leaders are not elected: %s", request_id, error)
    return True


def _elect(admin: KafkaAdmin, moves: Sequence[Move], timeout: float) -> None:
    """Elect the preferred leaders that are in sync and do not lead already."""
    done = [move for move in moves if move.state == "done"]
    topics = describe(admin, {move.topic for move in done})
    tps = []
    for move in done:
        topic = topics.get(move.topic)
        if topic is None or move.partition >= len(topic.partitions):
            continue
        row = topic.partitions[move.partition]
        if row.leader != move.after[0] and move.after[0] in row.isr:
            tps.append(move.tp)
    if not tps:
        return
    for (topic_name, partition), error in elect_preferred(admin.requests, tps, timeout).items():
        _log.warning("the preferred leader of %s-%d is not elected: %s", topic_name, partition, error)
