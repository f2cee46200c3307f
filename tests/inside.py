"""What tests use of the inside of a controller and of clients, in one place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafka.admin import ConfigResourceType

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.controller.access.passwords import PasswordProver
from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.healing.healer import Healer
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.state.broker_limits import BrokerLimits
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.release import TopicReleaser
from spark_ordered_kafka.controller.zk.session import Session
from spark_ordered_kafka.kafka import configs
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.task import TaskTransaction


def session_of(service: ControllerService) -> Session:
    """Its ZooKeeper session."""
    return service._session


def connection_is(session: Session, state: str) -> None:
    """Let it take the state of its connection, one of ``KazooState``, for this one."""
    session._on_state(state)


def check_removed(service: ControllerService, topic: str) -> None:
    """What its repeated check of a topic's removed partitions does."""
    service._retirement.update_status(topic)


def before_fencing(releaser: TopicReleaser, call: Callable[[], None]) -> None:
    """Let it call this first, once the intent to release a topic is recorded."""
    fence = releaser._fence

    def called(topic: str) -> None:
        call()
        fence(topic)

    releaser._fence = called  # type: ignore[method-assign]


def topic_configs_at(admin: KafkaAdmin, broker: int, topic: str, timeout: float) -> dict[str, str]:
    """What is set for a topic itself, as one broker knows it: others may hear of a change later."""

    async def ask(deadline: float) -> dict[str, str]:
        resources = [(ConfigResourceType.TOPIC, topic)]
        (result,) = await configs._described(admin.requests, resources, broker, deadline)
        return configs._values(result, configs._TOPIC_CONFIG)

    return admin.requests.retry(ask, time.monotonic() + timeout, f"ask broker {broker} for {topic}")


def limits_of(service: ControllerService) -> BrokerLimits:
    """The limits of its brokers in ZooKeeper."""
    return service.capacities._limits


def prover_of(service: ControllerService) -> PasswordProver:
    """What asks Kafka whether a password is right."""
    prover = service.authenticator._passwords
    assert isinstance(prover, PasswordProver)
    return prover


def producer_of(task: TaskTransaction) -> TransactionalProducer:
    """The producer of its open transaction."""
    producer = task._writer.producer
    assert producer is not None
    return producer


def undelivered(producer: TransactionalProducer) -> int:
    """What librdkafka holds of it: records that are not acknowledged, and reports that are not served."""
    return len(producer._producer)


def progress_in(consumer: OrderedConsumer, topic: str, partition: int) -> Progress:
    """How far it has read a partition that is assigned to it."""
    return consumer._assignment._topics[topic].own[partition]


def held_by(consumer: OrderedConsumer) -> int:
    """Records that it has fetched and may not deliver yet."""
    return consumer._assignment.delivery.held


def directory_of(consumer: OrderedConsumer) -> TopicDirectory:
    """Where it gets layouts."""
    return consumer._directory


def znodes_of(service: ControllerService) -> Znodes:
    """Its topics in ZooKeeper."""
    return service.creator._znodes


def jobs_of(service: ControllerService) -> dict[str, tuple[Job, threading.Thread]]:
    """Its partition changes that have not ended, with the thread of each, by topic."""
    return service.changes._jobs._entries


def healing_step(healer: Healer) -> None:
    """One look at the cluster, and what follows from it."""
    healer._step(threading.Event())
