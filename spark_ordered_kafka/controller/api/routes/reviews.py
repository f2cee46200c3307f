"""Routes of requests that wait for a second principal."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Path, Request
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.rights import by_item, on_cluster
from spark_ordered_kafka.controller.api.middleware.governance import Governance
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.state.reviews import review_view

ReviewId = Annotated[schemas.Number, Path(ge=1, le=2**31 - 1)]


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = Depends(service.require_active)
    seen = on_cluster(service, Operation.DESCRIBE)

    @app.get("/v1/reviews", dependencies=[seen])
    def list_reviews() -> schemas.ReviewList:
        """Pending requests, and those decided recently; the newest first."""
        return service.reviews.listed()

    @app.get("/v1/reviews/{review_id}", dependencies=[seen])
    def get_review(review_id: ReviewId) -> schemas.ReviewView:
        """A pending request, or its outcome."""
        return review_view(review_id, *service.reviews.get(review_id))

    @app.post(
        "/v1/reviews/{review_id}/approve",
        dependencies=[active, by_item(service, "what the request itself needs")],
    )
    async def approve_review(review_id: ReviewId, request: Request, caller: CallerOf) -> schemas.ReviewView:
        """Carry a request out in its requester's name; requesters cannot approve their own requests."""
        governance: Governance = request.state.governance
        reviews = service.reviews
        record, _ = await run_in_threadpool(reviews.get, review_id)
        reviews.check_approvable(review_id, record, caller.principal)
        await governance.check_rights(record, caller)
        await governance.check_unchanged(record)
        claimed = await run_in_threadpool(reviews.claim, review_id, caller.principal)
        outcome = await governance.carry_out(review_id, claimed, request.state.request_id)
        status: Literal["done", "failed"] = "failed" if outcome.refused else "done"
        finished = await run_in_threadpool(reviews.finish, review_id, status, outcome.status, outcome.content)
        return review_view(review_id, finished, status)

    @app.post(
        "/v1/reviews/{review_id}/discard",
        dependencies=[active, by_item(service, "what the request itself needs, or to have asked for it")],
    )
    async def discard_review(review_id: ReviewId, request: Request, caller: CallerOf) -> schemas.ReviewView:
        """Discard a pending request, or one whose outcome is unknown."""
        governance: Governance = request.state.governance
        record, _ = await run_in_threadpool(service.reviews.get, review_id)
        if caller.principal != record.principal:
            await governance.check_rights(record, caller)
        discarded = await run_in_threadpool(service.reviews.discard, review_id, caller.principal)
        return review_view(review_id, discarded, "discarded")
