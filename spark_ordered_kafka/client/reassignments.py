"""Calls of the controller's HTTP API about reassignments of partitions."""

from __future__ import annotations

from typing import Literal

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.transport import new_key
from spark_ordered_kafka.client.typed import TypedTransport
from spark_ordered_kafka.client.waits import DRAIN_TIMEOUT, PLAN_TIMEOUT, patience_of

_PATH = "/v1/reassignments"


class ReassignmentCalls:
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise."""

    _transport: TypedTransport

    def reassign(self, request: schemas.ReassignmentRequest) -> schemas.ReassignmentResult:
        """Move replicas between brokers and log directories, whole or not at all; a result per partition.

        ``request_id`` None: nothing was started.
        """
        return self._transport.ask(
            schemas.ReassignmentResult,
            "POST",
            _PATH,
            body=request,
            extra_timeout=patience_of(request.timeout_ms),
            key=new_key(),
        )

    def elect_leaders(self, request: schemas.LeaderElectionRequest) -> schemas.LeaderElectionResult:
        """Let the preferred replicas of partitions lead them; a result per partition."""
        return self._transport.ask(
            schemas.LeaderElectionResult,
            "POST",
            "/v1/leader-elections",
            body=request,
            extra_timeout=DRAIN_TIMEOUT,
        )

    def reassignments(self) -> schemas.ReassignmentList:
        """The requests that are kept, newest first, and all that Kafka is busy with, also what other tools began."""
        return self._transport.ask(schemas.ReassignmentList, "GET", _PATH, extra_timeout=DRAIN_TIMEOUT)

    def reassignment(self, request_id: int | Literal["latest"] = "latest") -> schemas.ReassignmentView:
        """A request and how far each of its replicas is."""
        return self._transport.ask(schemas.ReassignmentView, "GET", f"{_PATH}/{request_id}")

    def alter_reassignment_throttle(
        self, request_id: int | Literal["latest"], request: schemas.ReassignmentThrottleRequest
    ) -> schemas.ReassignmentSummary:
        """Change how fast a request that has not ended may copy."""
        path = f"{_PATH}/{request_id}"
        return self._transport.ask(
            schemas.ReassignmentSummary,
            "PATCH",
            path,
            body=request,
            repeatable=request_id != "latest",  # by then it may be another one
        )

    def cancel_reassignment(
        self, request_id: int | Literal["latest"], *, validate_only: bool = False
    ) -> schemas.ReassignmentResult:
        """Ask for what a request has not done yet to be taken back; a result per partition."""
        params = {"validate_only": "true"} if validate_only else {}
        return self._transport.ask(
            schemas.ReassignmentResult, "DELETE", f"{_PATH}/{request_id}", params=params
        )

    def verify_reassignment(self, request: schemas.VerifyRequest) -> schemas.Verification:
        """Whether partitions have come to what Kafka's JSON says."""
        return self._transport.ask(
            schemas.Verification,
            "POST",
            f"{_PATH}/verify",
            body=request,
            extra_timeout=DRAIN_TIMEOUT,
            repeatable=True,
        )

    def plan_reassignment(self, request: schemas.ReassignmentPlanRequest) -> schemas.ReassignmentPlan:
        """What to reassign for a goal; nothing is changed. :meth:`reassign` takes its ``partitions``."""
        return self._transport.ask(
            schemas.ReassignmentPlan,
            "POST",
            f"{_PATH}/plan",
            body=request,
            extra_timeout=PLAN_TIMEOUT,
            repeatable=True,
        )
