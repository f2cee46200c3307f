"""The HTTP routes: they translate to and from the service, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change import FinishedChange
from spark_ordered_kafka.controller.metrics import CONTENT_TYPE
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.views import result
from spark_ordered_kafka.errors import ErrorCode, LayoutChangingError, OrderedKafkaError, RequestError

MAX_WAIT = 600.0  # seconds a request may wait for its changes

_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.PARTITION_CHANGE_IN_PROGRESS: HTTPStatus.CONFLICT,
    ErrorCode.LOG_TRUNCATED: HTTPStatus.CONFLICT,
    ErrorCode.ACTIVE_FOREIGN_PRODUCERS: HTTPStatus.CONFLICT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_BodyT = TypeVar("_BodyT", bound=BaseModel)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status.value: {"model": schemas.Result}
    for status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
}


def create_app(service: ControllerService) -> FastAPI:
    """The application for a started ``service``."""
    app = FastAPI(title="ordered-kafka controller", version="1", responses=_ERRORS, redirect_slashes=False)
    app.add_exception_handler(OrderedKafkaError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_route)
    _add_health(app, service)
    _add_metrics(app, service)
    _add_topics(app, service)
    _add_changes(app, service)
    _add_groups(app, service)
    return app


def _add_health(app: FastAPI, service: ControllerService) -> None:
    @app.get("/healthz")
    async def healthz() -> schemas.Result:
        """The process is alive."""
        return schemas.Result()

    @app.get("/readyz")
    def readyz() -> schemas.Result:
        """This process is the controller, and Kafka and ZooKeeper answer."""
        service.check_ready()
        return schemas.Result()


def _add_metrics(app: FastAPI, service: ControllerService) -> None:
    @app.get("/metrics", response_class=Response)
    def get_metrics() -> Response:
        """Counters of this process in Prometheus' text format."""
        return Response(service.metrics.exposition(), media_type=CONTENT_TYPE)

    @app.post(
        "/v1/topics/{topic}/misrouted",
        dependencies=[Depends(service.require_active)],
        **_body(schemas.MisroutedReport),
    )
    def report_misrouted(
        topic: str, request: Annotated[schemas.MisroutedReport, Depends(_reader(schemas.MisroutedReport))]
    ) -> schemas.Result:
        """Count records that a reader found where their keys do not belong."""
        service.metrics.count_misrouted(topic, request)
        return schemas.Result()


def _add_topics(app: FastAPI, service: ControllerService) -> None:
    active = [Depends(service.require_active)]

    @app.post(
        "/v1/topics", status_code=HTTPStatus.CREATED, dependencies=active, **_body(schemas.CreateTopicRequest)
    )
    def create_topic(
        request: Annotated[schemas.CreateTopicRequest, Depends(_reader(schemas.CreateTopicRequest))],
    ) -> schemas.TopicResult:
        """Create a topic under management."""
        return service.creator.create(request)

    @app.post("/v1/topics/{topic}/adopt", dependencies=active, **_body(schemas.AdoptTopicRequest))
    def adopt_topic(
        topic: str, request: Annotated[schemas.AdoptTopicRequest, Depends(_reader(schemas.AdoptTopicRequest))]
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

    @app.patch("/v1/topics/{topic}", dependencies=active, **_body(schemas.AlterTopicRequest))
    async def alter_topic(
        topic: str,
        request: Annotated[schemas.AlterTopicRequest, Depends(_reader(schemas.AlterTopicRequest))],
        wait: Annotated[float | None, Query(gt=0, le=MAX_WAIT, allow_inf_nan=False)] = None,
    ) -> schemas.TopicResult:
        """Alter ordered delivery or Kafka's configuration; ``wait`` waits so many seconds for the end of the change."""
        item, future = await run_in_threadpool(service.alteration.alter, topic, request)
        return item if wait is None else (await _await_changes([item], [future], wait))[0]

    @app.post("/v1/topics/{topic}/delete-records", dependencies=active, **_body(schemas.DeleteRecordsRequest))
    def delete_records(
        topic: str,
        request: Annotated[schemas.DeleteRecordsRequest, Depends(_reader(schemas.DeleteRecordsRequest))],
    ) -> schemas.DeletedRecords:
        """Drain partitions marked for deletion."""
        return service.drain.delete_records(topic, request)

    @app.get("/v1/topics/{topic}/layout", dependencies=active)
    def get_layout(
        topic: str, from_epoch: Annotated[int, Query(ge=0)] = 0, writer: bool = False
    ) -> schemas.LayoutHistoryView | schemas.WriterLayoutView:
        """The layout history, or for ``writer=true`` what a writer needs; a linearizable read."""
        if writer:
            return service.topics.writer_layout(topic)
        return service.topics.layouts(topic, from_epoch)

    @app.get("/v1/topics/{topic}/leader-epochs", dependencies=active)
    def get_leader_epochs(topic: str, partitions: str | None = None) -> schemas.LeaderEpochsView:
        """KIP-253's PartitionLeaderEpochsForPartitions; ``partitions`` is a comma-separated list."""
        return service.topics.leader_epochs(topic, None if partitions is None else _partitions(partitions))

    @app.post("/v1/topics/{topic}/truncations", dependencies=active, **_body(schemas.TruncationsRequest))
    def get_truncations(
        topic: str,
        request: Annotated[schemas.TruncationsRequest, Depends(_reader(schemas.TruncationsRequest))],
    ) -> schemas.Truncations:
        """Which positions and layout starts lie beyond what the logs still have of their leader epoch (KIP-320)."""
        return service.truncations.check(topic, request)

    @app.get("/v1/brokers", dependencies=active)
    def get_brokers() -> schemas.BrokerList:
        """Brokers with racks, hosted replicas and capacity."""
        return service.topics.brokers()


def _add_changes(app: FastAPI, service: ControllerService) -> None:
    active = [Depends(service.require_active)]

    @app.post("/v1/partition-counts", dependencies=active, **_body(schemas.PartitionCountsRequest))
    async def alter_partition_counts(
        request: Annotated[schemas.PartitionCountsRequest, Depends(_reader(schemas.PartitionCountsRequest))],
        wait: Annotated[float | None, Query(gt=0, le=MAX_WAIT, allow_inf_nan=False)] = None,
    ) -> schemas.TopicResults:
        """Start partition changes (KIP-179, KIP-253); ``wait`` waits so many seconds for their end."""
        results, futures = await run_in_threadpool(service.changes.alter, request)
        if wait is not None:
            # On the event loop, not in a thread of the pool: waiting requests must not starve writers' checks.
            results = await _await_changes(results, futures, wait)
        return schemas.TopicResults(topics=results)

    @app.get("/v1/topics/{topic}/change", dependencies=active)
    def get_change(topic: str) -> schemas.TopicChange:
        """The change in progress and the one that ended last."""
        return service.changes.view(topic)

    @app.delete("/v1/topics/{topic}/change", dependencies=active)
    def cancel_change(topic: str) -> schemas.TopicResult:
        """Ask for the change in progress to be taken back."""
        return service.changes.cancel(topic)


def _add_groups(app: FastAPI, service: ControllerService) -> None:
    # A group's name may hold anything, slashes included.
    @app.get("/v1/groups/{group:path}/positions", dependencies=[Depends(service.require_active)])
    def get_group_positions(group: str, topic: str | None = None) -> schemas.GroupPositions:
        """A group's committed positions, and what each blocked partition waits for (KIP-253 ConsumerGroupPosition)."""
        return service.positions.describe(group, topic)


async def _await_changes(
    results: list[schemas.TopicResult], futures: list[Future[FinishedChange] | None], wait: float
) -> list[schemas.TopicResult]:
    wrapped = [None if future is None else asyncio.wrap_future(future) for future in futures]
    pending = [future for future in wrapped if future is not None]
    if pending:
        await asyncio.wait(pending, timeout=wait)
    return [_ended(item, future, wait) for item, future in zip(results, wrapped, strict=True)]


def _ended(
    item: schemas.TopicResult, future: asyncio.Future[FinishedChange] | None, wait: float
) -> schemas.TopicResult:
    if future is None:
        return item
    if not future.done():
        code, message = ErrorCode.REQUEST_TIMED_OUT, f"change {item.change_id} goes on after {wait:g} s"
    elif (error := future.exception()) is not None:
        code, message = ErrorCode.NOT_CONTROLLER, f"the next controller goes on with the change: {error}"
    elif (finished := future.result()).outcome == "done":
        return item
    elif finished.error_code is not None:
        code, message = ErrorCode(finished.error_code), finished.error_message or finished.outcome
    else:
        code, message = ErrorCode.INVALID_REQUEST, f"change {item.change_id} was cancelled"
    return item.model_copy(update={"error_code": int(code), "error": code.name, "error_message": message})


# -- requests and errors --------------------------------------------------------------------------------------------


def _reader(kind: type[_BodyT]) -> Callable[[Request], Awaitable[_BodyT]]:
    """A dependency that reads the body as JSON: strict models tell JSON's string keys from wrong types only there."""

    async def read(request: Request) -> _BodyT:
        try:
            return kind.model_validate_json(await request.body())
        except ValidationError as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, _describe(error.errors())) from error

    return read


def _body(kind: type[BaseModel]) -> dict[str, Any]:
    schema = kind.model_json_schema(ref_template=f"#/components/schemas/{kind.__name__}/$defs/{{model}}")
    content = {"application/json": {"schema": schema}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def _partitions(value: str) -> list[int]:
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"partitions has the value {value!r}: a comma-separated list of partition numbers is needed",
        ) from None


def _describe(errors: list[Any]) -> str:
    lines = []
    for error in errors:
        field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        shown = "" if error["type"] == "missing" else f" has the value {str(error['input'])[:100]!r}"
        lines.append(f"{field or 'the body'}{shown}: {error['msg']}")
    return "; ".join(lines)


def _answer(error: OrderedKafkaError, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(result(schemas.Result, error).model_dump(), status_code=status, headers=headers)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, OrderedKafkaError):
        raise error
    if isinstance(error, LayoutChangingError):
        headers = {"Retry-After": f"{error.retry_after:g}"}
        return _answer(error, HTTPStatus.SERVICE_UNAVAILABLE, headers)
    if error.retriable:
        return _answer(error, HTTPStatus.SERVICE_UNAVAILABLE)
    return _answer(error, _STATUS.get(error.code, HTTPStatus.BAD_REQUEST))


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, _describe(list(error.errors())))
    return _answer(refusal, HTTPStatus.BAD_REQUEST)


async def _refuse_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, f"{request.method} {request.url.path}: {error.detail}")
    return _answer(refusal, error.status_code)
