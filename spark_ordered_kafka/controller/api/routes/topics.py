"""Routes of topics under management."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from fastapi import Depends, FastAPI, Response
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation, ResourceType
from spark_ordered_kafka.controller.api.http.caller import Caller, CallerOf
from spark_ordered_kafka.controller.api.http.filters import Filter, texts
from spark_ordered_kafka.controller.api.http.items import each, only, seconds, topic_results
from spark_ordered_kafka.controller.api.http.rights import by_item, on_topic
from spark_ordered_kafka.controller.api.http.thread_pools import RIGHTS
from spark_ordered_kafka.controller.api.http.waiting import Wait, await_changes
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.topics.cluster_topics import Among
from spark_ordered_kafka.updates import updated


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.confirm_active)]

    @app.post(
        "/v1/topics",
        status_code=HTTPStatus.CREATED,
        responses={HTTPStatus.OK.value: {"model": schemas.TopicResults, "description": "Of several topics"}},
        dependencies=[
            *active,
            by_item(
                service,
                "CREATE on the topic or on the cluster",
                (Operation.CREATE, ResourceType.TOPIC),
                (Operation.CREATE, ResourceType.CLUSTER),
            ),
        ],
    )
    async def create_topics(
        request: schemas.CreateTopicRequest | schemas.CreateTopicsRequest,
        caller: CallerOf,
        response: Response,
    ) -> schemas.TopicResult | schemas.TopicResults:
        """Create a topic under management; or several topics, each with its own result."""
        single = isinstance(request, schemas.CreateTopicRequest)
        new = [request] if isinstance(request, schemas.CreateTopicRequest) else request.topics
        create = partial(
            service.creator.create, principal=caller.principal, validate_only=request.validate_only
        )
        work = [(one.topic, partial(create, one)) for one in new]
        found = await each(service, caller, Operation.CREATE, work, seconds(request.timeout_ms))
        if not single:
            response.status_code = HTTPStatus.OK
            return topic_results([one.topic for one in new], found)
        return only(found)

    @app.post("/v1/topics/{topic}/adopt", dependencies=[*active, on_topic(service, Operation.ALTER)])
    def adopt_topic(topic: str, request: schemas.AdoptTopicRequest) -> schemas.TopicResult:
        """Take an existing Kafka topic with its records under management."""
        return service.adopter.adopt(topic, request)

    @app.get("/v1/topics", dependencies=[by_item(service, "DESCRIBE on each topic that is shown")])
    def list_topics(caller: CallerOf) -> schemas.TopicList:
        """The topics under management that the caller may describe."""
        found = service.topics.summaries(service.changes.current)
        shown = set(service.access.among(caller, Operation.DESCRIBE, [row.topic for row in found.topics]))
        return schemas.TopicList(topics=[row for row in found.topics if row.topic in shown])

    @app.get(
        "/v1/kafka-topics",
        dependencies=[
            by_item(
                service,
                "DESCRIBE on each topic that is shown, DESCRIBE_CONFIGS on those that are shown with configs",
            )
        ],
    )
    def list_kafka_topics(
        caller: CallerOf, topic: Filter = None, configs: bool = False
    ) -> schemas.KafkaTopicList:
        """The topics of the cluster that the caller may describe, under management or not; with ``topic`` these alone."""

        def may(operation: Operation) -> Among:
            return lambda names: [str(name) for name in service.access.among(caller, operation, names)]

        return service.cluster_topics.describe(
            sorted(texts("topic", topic)),
            may(Operation.DESCRIBE),
            may(Operation.DESCRIBE_CONFIGS) if configs else None,
        )

    @app.get("/v1/topics/{topic}", dependencies=[on_topic(service, Operation.DESCRIBE)])
    def get_topic(
        topic: str, caller: CallerOf, response: Response, details: bool = False
    ) -> schemas.TopicView:
        """A topic with its partitions, for ``details`` with their logs; the ETag names layout epoch and znode version."""
        view, response.headers["ETag"] = service.topics.view(topic, service.changes.current)
        if not details:
            return view
        shown = service.access.among(caller, Operation.DESCRIBE_CONFIGS, [topic])
        configs = service.cluster_topics.configs(topic) if shown else None
        return updated(service.drain.detailed(view), configs=configs)

    @app.get("/v1/topics/{topic}/foreign-producers", dependencies=[on_topic(service, Operation.DESCRIBE)])
    def get_foreign_producers(topic: str) -> schemas.ForeignProducers:
        """Producers that are no ordered writers and that Kafka has not forgotten: a change of the topic would be refused."""
        service.topics.record(topic)
        return service.cluster_topics.foreign_producers(topic)

    @app.get("/v1/topics/{topic}/hanging-transactions", dependencies=[on_topic(service, Operation.DESCRIBE)])
    def get_hanging_transactions(topic: str) -> schemas.HangingTransactionList:
        """Transactions that are open in the topic's logs and that no coordinator will end: readers stop before them."""
        service.topics.record(topic)
        return service.cluster_topics.hanging_transactions(topic)

    def check_alteration(caller: Caller, topic: str, request: schemas.AlterTopicRequest) -> None:
        if request.ordered_delivery is not None:
            service.access.check(caller, Operation.ALTER, topic)
        if request.configs:
            service.access.check(caller, Operation.ALTER_CONFIGS, topic)

    @app.patch(
        "/v1/topics/{topic}",
        dependencies=[
            *active,
            by_item(
                service,
                "ALTER on the topic for ordered_delivery, ALTER_CONFIGS for configs",
                (Operation.ALTER, ResourceType.TOPIC),
                (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
            ),
        ],
    )
    async def alter_topic(
        topic: str, request: schemas.AlterTopicRequest, caller: CallerOf, wait: Wait = None
    ) -> schemas.TopicResult:
        """Alter ordered delivery or Kafka's configuration; ``wait``: seconds to wait for the end of the change."""
        await RIGHTS.run(check_alteration, caller, topic, request)
        alter = partial(service.alteration.alter, principal=caller.principal)
        item, future = await run_in_threadpool(alter, topic, request)
        return item if wait is None else (await await_changes([item], [future], wait))[0]

    @app.post(
        "/v1/topics/{topic}/delete-records", dependencies=[*active, on_topic(service, Operation.DELETE)]
    )
    def delete_records(topic: str, request: schemas.DeleteRecordsRequest) -> schemas.DeletedRecords:
        """Delete the records of partitions marked for deletion."""
        return service.drain.delete_records(topic, request)
