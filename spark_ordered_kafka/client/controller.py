"""The controller's HTTP API as typed Python calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.config import is_http_url
from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    LayoutChangingError,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)

_LAYOUT_RETRY = 0.05
"""Seconds between two questions for a layout. ``Retry-After`` counts whole seconds, but most closings take less."""
_DRAIN_TIMEOUT = 30.0
"""Seconds that a controller may take to ask brokers and group coordinators before it answers."""

_AnswerT = TypeVar("_AnswerT", bound=BaseModel)


def parse_urls(value: str) -> tuple[str, ...]:
    """Controller URLs from a comma-separated list, e.g. ``http://c1:8090,http://c2:8090``.

    Raises ConfigError when the list is empty or an item is not an http(s) URL.
    """
    urls = tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
    expected = "a comma-separated list of controller URLs such as http://host:8090"
    if not urls:
        raise ConfigError("controller.url", value, expected)
    for url in urls:
        if not is_http_url(url):
            raise ConfigError("controller.url", url, expected)
    return urls


class ControllerClient:
    """Typed, synchronous client of the controller.

    Tries the URLs in turn, starting with the one that answered last. ``timeout`` (seconds) bounds each attempt.
    Raises UnavailableError when no controller answers, LayoutChangingError while a change is closing, RequestError
    with the answer's code for every other refusal. Safe to share between threads.
    """

    def __init__(self, urls: str | Sequence[str], *, timeout: float = 10.0) -> None:
        self.urls = parse_urls(urls if isinstance(urls, str) else ",".join(urls))
        self._preferred = 0
        self._timeout = timeout
        self._http = httpx.Client(timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._http.close()

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> schemas.TopicList:
        """All topics under management."""
        return self._call(schemas.TopicList, "GET", "/v1/topics")

    def topic(self, topic: str, *, details: bool = False) -> schemas.TopicView:
        """Counts, epoch, hash, change in progress and the partitions with their status.

        ``details`` adds each partition's log and what waits for it, which asks brokers and coordinators.
        """
        params = {"details": "true"} if details else {}
        return self._call(
            schemas.TopicView,
            "GET",
            _topic_path(topic),
            params=params,
            extra_timeout=_DRAIN_TIMEOUT if details else None,
        )

    def create_topic(self, request: schemas.CreateTopicRequest) -> schemas.TopicResult:
        """Create a topic under management."""
        return self._call(schemas.TopicResult, "POST", "/v1/topics", body=request)

    def layout(self, topic: str, from_epoch: int = 0) -> schemas.LayoutHistoryView:
        """The committed layouts from ``from_epoch`` on; a linearizable read."""
        return self._call(
            schemas.LayoutHistoryView,
            "GET",
            _topic_path(topic, "layout"),
            params={"from_epoch": str(from_epoch)},
        )

    def writer_layout(self, topic: str) -> schemas.WriterLayoutView:
        """What a writer needs to place records; a linearizable read.

        Raises LayoutChangingError while a partition change is closing.
        """
        return self._call(
            schemas.WriterLayoutView,
            "GET",
            _topic_path(topic, "layout"),
            params={"writer": "true"},
            topic=topic,
        )

    def wait_for_layout(
        self,
        topic: str,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> schemas.WriterLayoutView:
        """The writer's layout, waiting while a change is closing or no controller answers.

        Raises the last retriable error once ``timeout`` (seconds) has passed.
        """
        deadline = clock() + timeout
        while True:
            try:
                return self.writer_layout(topic)
            except OrderedKafkaError as error:
                if not error.retriable or clock() >= deadline:
                    raise
                sleep(min(_LAYOUT_RETRY, max(0.0, deadline - clock())))

    def leader_epochs(self, topic: str, partitions: Sequence[int] | None = None) -> schemas.LeaderEpochsView:
        """KIP-253's PartitionLeaderEpochsForPartitions; ``None`` asks for every partition."""
        params = {} if partitions is None else {"partitions": ",".join(map(str, partitions))}
        return self._call(schemas.LeaderEpochsView, "GET", _topic_path(topic, "leader-epochs"), params=params)

    def adopt_topic(self, topic: str, request: schemas.AdoptTopicRequest) -> schemas.TopicResult:
        """Take a topic that exists in Kafka under management."""
        return self._call(schemas.TopicResult, "POST", _topic_path(topic, "adopt"), body=request)

    def alter_topic(
        self, topic: str, request: schemas.AlterTopicRequest, *, wait: float | None = None
    ) -> schemas.TopicResult:
        """Alter ordered delivery, which is a change of layout, or Kafka's configuration of the topic."""
        return self._call(
            schemas.TopicResult,
            "PATCH",
            _topic_path(topic),
            params={} if wait is None else {"wait": f"{wait:g}"},
            body=request,
            extra_timeout=wait,
        )

    def delete_records(self, topic: str, request: schemas.DeleteRecordsRequest) -> schemas.DeletedRecords:
        """Drain partitions marked for deletion; the result of each says whether it was done."""
        return self._call(
            schemas.DeletedRecords,
            "POST",
            _topic_path(topic, "delete-records"),
            body=request,
            extra_timeout=_DRAIN_TIMEOUT,
        )

    def truncations(self, topic: str, request: schemas.TruncationsRequest) -> schemas.Truncations:
        """Which positions and layout starts lie beyond what the logs still have of their leader epoch (KIP-320)."""
        return self._call(schemas.Truncations, "POST", _topic_path(topic, "truncations"), body=request)

    def report_misrouted(self, topic: str, records: int) -> None:
        """Let the controller count records that lie where their keys do not belong."""
        body = schemas.MisroutedReport(records=records)
        self._call(schemas.Result, "POST", _topic_path(topic, "misrouted"), body=body)

    # -- changes ------------------------------------------------------------------------------------------------

    def alter_partition_counts(
        self, request: schemas.PartitionCountsRequest, *, wait: float | None = None
    ) -> schemas.TopicResults:
        """Start partition changes; a result per topic. ``wait`` (seconds) waits for their end."""
        params = {} if wait is None else {"wait": f"{wait:g}"}
        return self._call(
            schemas.TopicResults,
            "POST",
            "/v1/partition-counts",
            params=params,
            body=request,
            extra_timeout=wait,
        )

    def change(self, topic: str) -> schemas.TopicChange:
        """The change in progress on the topic, and the one that ended last."""
        return self._call(schemas.TopicChange, "GET", _topic_path(topic, "change"))

    def cancel_change(self, topic: str) -> schemas.TopicResult:
        """Ask for the change in progress to be taken back; possible until its boundaries are read."""
        return self._call(schemas.TopicResult, "DELETE", _topic_path(topic, "change"))

    def brokers(self) -> schemas.BrokerList:
        """Brokers with racks, hosted replicas and capacity."""
        return self._call(schemas.BrokerList, "GET", "/v1/brokers")

    # -- transport ----------------------------------------------------------------------------------------------

    def _call(
        self,
        answer: type[_AnswerT],
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
        topic: str = "",
        extra_timeout: float | None = None,
    ) -> _AnswerT:
        content = None if body is None else body.model_dump_json(exclude_none=True)
        timeout = httpx.Timeout(self._timeout, read=self._timeout + (extra_timeout or 0.0))
        failures = []
        for attempt in range(len(self.urls)):
            index = (self._preferred + attempt) % len(self.urls)
            url = self.urls[index]
            try:
                response = self._http.request(
                    method,
                    url + path,
                    params=params,
                    content=content,
                    headers={"content-type": "application/json"},
                    timeout=timeout,
                )
            except httpx.HTTPError as error:
                failures.append(f"{url}: {error or type(error).__name__}")
                continue
            if _is_standby(response):
                failures.append(f"{url}: is not the active controller")
                continue
            self._preferred = index
            return _read(answer, response, topic)
        raise UnavailableError(f"no controller answered {method} {path}: {'; '.join(failures)}")


def _topic_path(topic: str, *rest: str) -> str:
    return "/".join(["/v1/topics", quote(topic, safe=""), *rest])


def _is_standby(response: httpx.Response) -> bool:
    """Whether another controller is to be asked: this one has done nothing."""
    if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
        return False
    try:
        return schemas.Result.model_validate_json(response.content).error_code == ErrorCode.NOT_CONTROLLER
    except ValidationError:
        return False


def _read(answer: type[_AnswerT], response: httpx.Response, topic: str) -> _AnswerT:
    if response.is_success:
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise UnavailableError(
                f"{response.request.url} answered something that is not a {answer.__name__}: {error}"
            ) from error
    try:
        result = schemas.Result.model_validate_json(response.content)
    except ValidationError:
        raise UnavailableError(
            f"{response.request.url} answered {response.status_code}: {response.text[:200]}"
        ) from None
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        if result.error_code == ErrorCode.INVALID_PARTITION_METADATA:
            raise LayoutChangingError(topic, float(response.headers.get("retry-after", "0.2")))
        raise UnavailableError(f"{response.request.url}: {result.error_message}")
    try:
        code = ErrorCode(result.error_code)
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    raise RequestError(code, result.error_message or "no reason given")
