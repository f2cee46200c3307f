"""Routes of reassignments of partitions (KIP-179), and of plans of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Response

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.items import only, outcomes, seconds
from spark_ordered_kafka.controller.api.http.rights import on_cluster
from spark_ordered_kafka.controller.reassign.requests.queries import RequestId
from spark_ordered_kafka.controller.service import ControllerService

_ID = r"^(latest|[1-9][0-9]{0,9})$"


async def _request_id(
    request_id: Annotated[str, Path(pattern=_ID, description="A number, or `latest`.")],
) -> RequestId:
    return "latest" if request_id == "latest" else int(request_id)


_Id = Annotated[RequestId, Depends(_request_id)]


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    seen = on_cluster(service, Operation.DESCRIBE)
    altering = [Depends(service.confirm_active), on_cluster(service, Operation.CLUSTER_ACTION)]

    @app.post("/v1/reassignments", dependencies=altering)
    async def reassign_partitions(
        request: schemas.ReassignmentRequest, caller: CallerOf
    ) -> schemas.ReassignmentResult:
        """Move replicas between brokers and log directories, whole or not at all; or undo an earlier request."""
        submit = partial(service.reassignments.submit, request, principal=caller.principal)
        return only(await outcomes(service.workers, [submit], seconds(request.timeout_ms)))

    @app.get("/v1/reassignments", dependencies=[seen])
    def list_reassignments() -> schemas.ReassignmentList:
        """The stored requests, newest first, and all of Kafka's ongoing reassignments, including those of other tools."""
        return service.reassignment_queries.all()

    @app.get("/v1/reassignments/{request_id}", dependencies=[seen], response_model=schemas.ReassignmentView)
    def get_reassignment(request_id: _Id) -> Response:
        """A request with the progress of each replica in bytes; `latest` is the newest one."""
        view = service.reassignment_queries.view(request_id)
        # FastAPI's serialization of 10,000 replicas takes ten times as long, and clients poll this.
        return Response(view.model_dump_json(), media_type="application/json")

    @app.patch("/v1/reassignments/{request_id}", dependencies=altering)
    def alter_reassignment(
        request_id: _Id, request: schemas.ReassignmentThrottleRequest
    ) -> schemas.ReassignmentSummary:
        """Change the throttles of a running request."""
        return service.reassignments.alter_throttle(request_id, request)

    @app.delete("/v1/reassignments/{request_id}", dependencies=altering)
    def cancel_reassignment(request_id: _Id, validate_only: bool = False) -> schemas.ReassignmentResult:
        """Cancel the moves of a request that are not done yet; finished moves stay."""
        return service.reassignments.cancel(request_id, validate_only=validate_only)

    @app.post("/v1/reassignments/verify", dependencies=[seen])
    def verify_reassignment(request: schemas.VerifyRequest) -> schemas.Verification:
        """Whether partitions are as Kafka's JSON says, as kafka-reassign-partitions --verify checks."""
        return service.reassignment_queries.verify(request)

    @app.post("/v1/reassignments/plan", dependencies=[seen])
    def plan_reassignment(request: schemas.ReassignmentPlanRequest) -> schemas.ReassignmentPlan:
        """Propose an assignment: drain brokers, spread onto new ones, balance, repair racks; nothing is changed."""
        return service.plans.propose(request)
