"""Routes of topics under management."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Response
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.bodies import body, reader
from spark_ordered_kafka.controller.api.waiting import MAX_WAIT, await_changes
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.require_active)]

    @app.post(
        "/v1/topics", status_code=HTTPStatus.CREATED, dependencies=active, **body(schemas.CreateTopicRequest)
    )
    def create_topic(
        request: Annotated[schemas.CreateTopicRequest, Depends(reader(schemas.CreateTopicRequest))],
    ) -> schemas.TopicResult:
        """Create a topic under management."""
        return service.creator.create(request)

    @app.post("/v1/topics/{topic}/adopt", dependencies=active, **body(schemas.AdoptTopicRequest))
    def adopt_topic(
        topic: str, request: Annotated[schemas.AdoptTopicRequest, Depends(reader(schemas.AdoptTopicRequest))]
    ) -> schemas.TopicResult:
        """Take a topic that exists in Kafka under management, with what it holds."""
        return service.adopter.adopt(topic, request)

    @app.get("/v1/topics", dependencies=active)
    def list_topics() -> schemas.TopicList:
        """All topics under management."""
        return service.topics.summaries(service.changes.current)

    @app.get("/v1/topics/{topic}", dependencies=active)
    def get_topic(topic: str, response: Response, details: bool = False) -> schemas.TopicView:
        """A topic with its partitions, for ``details`` with their logs; the ETag names layout epoch and znode version."""
        view, response.headers["ETag"] = service.topics.view(topic, service.changes.current)
        return service.drain.detailed(view) if details else view

    @app.patch("/v1/topics/{topic}", dependencies=active, **body(schemas.AlterTopicRequest))
    async def alter_topic(
        topic: str,
        request: Annotated[schemas.AlterTopicRequest, Depends(reader(schemas.AlterTopicRequest))],
        wait: Annotated[float | None, Query(gt=0, le=MAX_WAIT, allow_inf_nan=False)] = None,
    ) -> schemas.TopicResult:
        """Alter ordered delivery or Kafka's configuration; ``wait`` waits so many seconds for the end of the change."""
        item, future = await run_in_threadpool(service.alteration.alter, topic, request)
        return item if wait is None else (await await_changes([item], [future], wait))[0]

    @app.post("/v1/topics/{topic}/delete-records", dependencies=active, **body(schemas.DeleteRecordsRequest))
    def delete_records(
        topic: str,
        request: Annotated[schemas.DeleteRecordsRequest, Depends(reader(schemas.DeleteRecordsRequest))],
    ) -> schemas.DeletedRecords:
        """Drain partitions marked for deletion."""
        return service.drain.delete_records(topic, request)
