"""Carries out requests to reassign partitions: one loop over all of them while this process leads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.execution.jobs import Shown
from spark_ordered_kafka.controller.reassign.execution.leader_term import LeaderTerm
from spark_ordered_kafka.controller.reassign.requests.views import summary, view
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError

_log = logging.getLogger(__name__)

_RETRY = 0.5
_BUG_RETRY = 5.0


class Executor:
    """The executor of one controller process. ``new_leader_term`` is called each time the process becomes leader."""

    def __init__(self, new_leader_term: Callable[[], LeaderTerm]) -> None:
        self._new_leader_term = new_leader_term
        self._leader_term: LeaderTerm | None = None
        self._thread: threading.Thread | None = None

    # -- for requests -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Read the store again: it has something new."""
        leader_term = self._leader_term
        if leader_term is not None:
            leader_term.announce()

    def snapshot(self, request_id: int) -> schemas.ReassignmentView | None:
        """A request that this process carries out, with its current progress; None for others."""
        shown = self._shown(request_id)
        return None if shown is None else view(shown.record, shown.moves, shown.rate)

    def summaries(self) -> list[schemas.ReassignmentSummary]:
        """All requests that this process carries out."""
        leader_term = self._leader_term
        shown = () if leader_term is None else leader_term.shown.values()
        return [summary(one.record, one.moves, one.rate) for one in shown]

    def _shown(self, request_id: int) -> Shown | None:
        leader_term = self._leader_term
        return None if leader_term is None else leader_term.shown.get(request_id)

    # -- for the process ----------------------------------------------------------------------------------------

    def resume_all(self) -> None:
        """Resume all requests that have not ended; the process must be the leader."""
        self._leader_term = leader_term = self._new_leader_term()
        self._thread = threading.Thread(
            target=self._run, args=(leader_term,), name="reassignments", daemon=True
        )
        self._thread.start()

    def begin_stop(self) -> None:
        """Start no further step; does not wait. Kafka completes what it has started, and the next controller resumes."""
        if self._leader_term is not None:
            self._leader_term.end()

    def stop(self, timeout: float) -> None:
        """:meth:`begin_stop`, then wait for the end of the current step, at most ``timeout`` seconds."""
        self.begin_stop()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                _log.warning("the reassignments did not stop within %g s", timeout)
        self._leader_term = None

    def _run(self, leader_term: LeaderTerm) -> None:
        last: str | None = None
        try:
            while not leader_term.stop.is_set():
                try:
                    leader_term.tick()
                    rest = leader_term.rest_seconds()
                    last = None
                except DeposedError:
                    _log.info("reassignments are left to the next controller")
                    return
                except OrderedKafkaError as error:
                    if str(error) != last:
                        _log.warning("reassignments make no progress: %s", error)
                    leader_term.look_again()
                    last, rest = str(error), _RETRY
                except Exception:  # noqa: BLE001 - a bug, and no request would continue without this thread
                    _log.exception("reassignments met a bug")
                    rest = _BUG_RETRY
                leader_term.rest(rest)
        finally:
            leader_term.close()
