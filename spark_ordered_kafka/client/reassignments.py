"""Calls of the controller's HTTP API about reassignments of partitions."""

from __future__ import annotations

from typing import Literal

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.transport import new_key
from spark_ordered_kafka.client.typed import Calls, query
from spark_ordered_kafka.client.waits import DRAIN_TIMEOUT, PLAN_TIMEOUT

_PATH = "/v1/reassignments"


class ReassignmentCalls(Calls):
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise."""

    def reassign(self, request: schemas.ReassignmentRequest) -> schemas.ReassignmentResult:
        """Move replicas between brokers and log directories, whole or not at all; a result per partition.

        ``request_id`` None: nothing was started.
        """
        return self._post(schemas.ReassignmentResult, _PATH, request, key=new_key())

    def elect_leaders(self, request: schemas.LeaderElectionRequest) -> schemas.LeaderElectionResult:
        """Let the preferred replicas of partitions lead them; a result per partition."""
        path = "/v1/leader-elections"
        return self._post(schemas.LeaderElectionResult, path, request, extra_timeout=DRAIN_TIMEOUT)

    def reassignments(self) -> schemas.ReassignmentList:
        """The requests that are kept, newest first, and all that Kafka is busy with, also what other tools began."""
        return self._get(schemas.ReassignmentList, _PATH, extra_timeout=DRAIN_TIMEOUT)

    def reassignment(self, request_id: int | Literal["latest"] = "latest") -> schemas.ReassignmentView:
        """A request and how far each of its replicas is."""
        return self._get(schemas.ReassignmentView, f"{_PATH}/{request_id}")

    def alter_reassignment_throttle(
        self, request_id: int | Literal["latest"], request: schemas.ReassignmentThrottleRequest
    ) -> schemas.ReassignmentSummary:
        """Change how fast a request that has not ended may copy."""
        path = f"{_PATH}/{request_id}"
        repeatable = request_id != "latest"  # by then it may be another one
        return self._transport.ask(schemas.ReassignmentSummary, "PATCH", path, request, repeatable=repeatable)

    def cancel_reassignment(
        self, request_id: int | Literal["latest"], *, validate_only: bool = False
    ) -> schemas.ReassignmentResult:
        """Ask for what a request has not done yet to be taken back; a result per partition."""
        params = query(validate_only=validate_only)
        return self._transport.ask(
            schemas.ReassignmentResult, "DELETE", f"{_PATH}/{request_id}", params=params
        )

    def verify_reassignment(self, request: schemas.VerifyRequest) -> schemas.Verification:
        """Whether partitions have come to what Kafka's JSON says."""
        path = f"{_PATH}/verify"
        return self._post(schemas.Verification, path, request, extra_timeout=DRAIN_TIMEOUT, repeatable=True)

    def plan_reassignment(self, request: schemas.ReassignmentPlanRequest) -> schemas.ReassignmentPlan:
        """What to reassign for a goal; nothing is changed. :meth:`reassign` takes its ``partitions``."""
        path = f"{_PATH}/plan"
        return self._post(
            schemas.ReassignmentPlan, path, request, extra_timeout=PLAN_TIMEOUT, repeatable=True
        )
