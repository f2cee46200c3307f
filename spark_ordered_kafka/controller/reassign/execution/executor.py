"""Carries out requests to reassign partitions: one loop over all of them, as long as this process is the controller."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.execution.jobs import Shown
from spark_ordered_kafka.controller.reassign.execution.leader_term import Reign
from spark_ordered_kafka.controller.reassign.requests.views import summary, view
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError

_log = logging.getLogger(__name__)

_RETRY = 0.5
_BUG_RETRY = 5.0


class Executor:
    """The executor of one controller process. ``new_reign`` is called whenever the process begins to lead."""

    def __init__(self, new_reign: Callable[[], Reign]) -> None:
        self._new_reign = new_reign
        self._reign: Reign | None = None
        self._thread: threading.Thread | None = None

    # -- for requests -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something is new in the store."""
        reign = self._reign
        if reign is not None:
            reign.announce()

    def snapshot(self, request_id: int) -> schemas.ReassignmentView | None:
        """A request that this process carries out, as it is now; None for others."""
        shown = self._shown(request_id)
        return None if shown is None else view(shown.record, shown.moves, shown.rate)

    def summaries(self) -> list[schemas.ReassignmentSummary]:
        """All that this process carries out."""
        reign = self._reign
        shown = () if reign is None else reign.shown.values()
        return [summary(one.record, one.moves, one.rate) for one in shown]

    def _shown(self, request_id: int) -> Shown | None:
        reign = self._reign
        return None if reign is None else reign.shown.get(request_id)

    # -- for the process ----------------------------------------------------------------------------------------

    def resume_all(self) -> None:
        """Go on with all requests that have not ended; the claim to be the controller must be held."""
        self._reign = reign = self._new_reign()
        self._thread = threading.Thread(target=self._run, args=(reign,), name="reassignments", daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        """Begin no further step; does not wait. What Kafka is at goes on, and so does the next controller."""
        if self._reign is not None:
            self._reign.end()

    def stop_all(self, timeout: float) -> None:
        """:meth:`begin_stop`, then wait until that is so, at most ``timeout`` seconds."""
        self.begin_stop()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                _log.warning("the reassignments did not stop within %g s", timeout)
        self._reign = None

    def _run(self, reign: Reign) -> None:
        last: str | None = None
        try:
            while not reign.stop.is_set():
                try:
                    reign.tick()
                    rest = reign.rest_seconds()
                    last = None
                except DeposedError:
                    _log.info("reassignments are left to the next controller")
                    return
                except OrderedKafkaError as error:
                    if str(error) != last:
                        _log.warning("reassignments do not go on: %s", error)
                    reign.look_again()
                    last, rest = str(error), _RETRY
                except Exception:  # noqa: BLE001 - a bug, and without this thread nothing would ever go on
                    _log.exception("reassignments met a bug")
                    rest = _BUG_RETRY
                reign.rest(rest)
        finally:
            reign.close()
