"""Carries out the instructions of the reassignment machine in Kafka, and returns their results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from spark_ordered_kafka.controller.reassign.machine.instructions import (
    Ask,
    CancelLogDirMove,
    MoveToLogDir,
    Restore,
    Start,
)
from spark_ordered_kafka.controller.reassign.machine.steps import forbids_directory
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PartitionId, Replica

_log = logging.getLogger(__name__)
_K = TypeVar("_K")
_V = TypeVar("_V")

Outcome = tuple[Ask, "OrderedKafkaError | None"]


class Actor:
    """Carries out instructions, those of all requests at once.

    Args:
        before: called with the name of each step before it.
        timeout: seconds for each call to Kafka's controller.
        broker_timeout: seconds for each call to the brokers that move replicas between log directories.
    """

    def __init__(
        self, admin: KafkaAdmin, before: Callable[[str], None], *, timeout: float, broker_timeout: float
    ) -> None:
        self._before = before
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._log_dirs = LogDirs(admin.requests, timeout=broker_timeout)

    def carry_out(self, asks: Sequence[Ask]) -> list[Outcome]:
        """The results. A ``Start`` after a refused log directory is left out.

        Log directories come first: a broker creates a new replica in the directory that it was asked for.
        """
        dirs: list[tuple[Ask, Replica, str]] = []
        starts: list[tuple[Ask, Sequence[int] | None]] = []
        backs: list[tuple[Ask, Sequence[int] | None]] = []
        for ask in asks:
            match ask.instruction:
                case MoveToLogDir(tp, broker, path) | CancelLogDirMove(tp, broker, path):
                    dirs.append((ask, (*tp, broker), path))
                case Start(_, replicas):
                    starts.append((ask, replicas))
                case Restore(_, replicas):
                    backs.append((ask, replicas))
                case _:
                    backs.append((ask, None))
        outcomes = self._place(dirs)
        refused = {ask.instruction.tp for ask, error in outcomes if forbids_directory(error)}
        outcomes += self._alter("withdraw", backs)
        return outcomes + self._alter(
            "start", [row for row in starts if row[0].instruction.tp not in refused]
        )

    def _alter(self, step: str, rows: Sequence[tuple[Ask, Sequence[int] | None]]) -> list[Outcome]:
        if not rows:
            return []
        self._before(step)
        targets: dict[PartitionId, Sequence[int] | None] = {ask.instruction.tp: to for ask, to in rows}
        failures = _failures(targets, self._reassignments.alter)
        return [(ask, failures.get(ask.instruction.tp)) for ask, _ in rows]

    def _place(self, rows: Sequence[tuple[Ask, Replica, str]]) -> list[Outcome]:
        if not rows:
            return []
        self._before("place")
        failures = _failures({replica: path for _, replica, path in rows}, self._log_dirs.alter)
        return [(ask, failures.get(replica)) for ask, replica, _ in rows]


def _failures(
    wanted: Mapping[_K, _V], ask: Callable[[Mapping[_K, _V]], Mapping[_K, RequestError]]
) -> Mapping[_K, OrderedKafkaError]:
    """The failed rows and their errors; all of them if Kafka did not answer."""
    try:
        failures = ask(wanted)
    except OrderedKafkaError as error:
        _log.warning("Kafka was asked in vain for %d changes of replicas: %s", len(wanted), error)
        return dict.fromkeys(wanted, error)
    for failed, refusal in failures.items():
        _log.info("%s: %s", failed, refusal)
    return failures
