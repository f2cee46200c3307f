"""The end of a request: preferred leaders are elected, and its record says how it ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from spark_ordered_kafka.client.schemas.reassignments import ReassignmentState
from spark_ordered_kafka.controller.reassign.machine.progress import totals
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord, Sums
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.elections import elect_preferred

_log = logging.getLogger(__name__)


def ended_record(
    record: RequestRecord, moves: Sequence[Move], now: float, warnings: Sequence[str]
) -> RequestRecord:
    """The record of a request whose moves have all ended; a cancel that came too late for all of them has changed nothing. PURE."""
    if record.ended:
        return record
    found = totals(moves)
    state: ReassignmentState = "done"
    if found.states["failed"]:
        state = "failed"
    elif found.states["cancelled"]:
        state = "cancelled"
    sums = Sums(numerator=found.numerator, denominator=found.denominator, states=dict(found.states))
    return record.model_copy(
        update={"state": state, "ended_at": now, "warnings": tuple(warnings), "sums": sums}
    )


def elect_leaders(admin: KafkaAdmin, moves: Sequence[Move], timeout: float) -> None:
    """Let the preferred leaders lead, of the moves that are done, where they are in sync and do not lead already.

    Raises UnavailableError when Kafka does not answer, RequestError when it does not let the cluster be altered.
    """
    done = [move for move in moves if move.state == "done"]
    topics = describe(admin, {move.topic for move in done})
    places = []
    for move in done:
        topic = topics.get(move.topic)
        if topic is None or move.partition >= len(topic.partitions):
            continue
        row = topic.partitions[move.partition]
        if row.leader != move.after[0] and move.after[0] in row.isr:
            places.append(move.place)
    if not places:
        return
    for (topic_name, partition), error in elect_preferred(admin.requests, places, timeout).items():
        _log.warning("the preferred leader of %s-%d is not elected: %s", topic_name, partition, error)
