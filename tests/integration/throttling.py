"""Throttles of real brokers: who sets them, and a part of a controller that can die when it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from spark_ordered_kafka.controller.reassign.throttle.manager import THROTTLES, Throttles
from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_RATE,
    LEADER_RATE,
    Found,
    Key,
    Need,
)
from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.zk.session import ROOT, Session
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.inside import topic_configs_at
from tests.integration.reassigning import Judge
from tests.servers import TIMEOUT, alter_configs

BROKERS = (1, 2, 3)
Configs = dict[str, dict[str, str]]
"""Of brokers ``"1"``, ... and of topics: what is set for each alone."""
Changes = dict["int | str", dict[str, "str | None"]]
"""Of brokers and topics; None: deleted."""


class Operator:
    """Somebody with Kafka's own client."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        # Brokers that come back are to be found at once.
        self.admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2, "reconnect.backoff.max.ms": 200}
        )

    def create(self, *replicas: list[int]) -> str:
        judge = Judge(self._cluster)
        try:
            return judge.create(*replicas)
        finally:
            judge.close()

    def configs(self, *topics: str, brokers: Collection[int] = BROKERS) -> Configs:
        asked = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in brokers]
        asked += [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        own = (ConfigSource.DYNAMIC_BROKER_CONFIG.value, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
        return {
            resource.name: {e.name: e.value for e in future.result(TIMEOUT).values() if e.source in own}
            for one in asked
            for resource, future in self.admin.describe_configs([one]).items()
        }

    def set(self, resource: int | str, values: Mapping[str, str | None]) -> None:
        """Alter, and wait until every broker that may be asked shows it."""
        kind = ResourceType.BROKER if isinstance(resource, int) else ResourceType.TOPIC
        alter_configs(self.admin, kind, str(resource), values)

        def is_shown(found: Mapping[str, str]) -> bool:
            return all(found.get(name) == _normal(value) for name, value in values.items())

        if isinstance(resource, int):
            eventually(lambda: is_shown(self.configs(brokers=[resource])[str(resource)]))
            return
        asked = KafkaAdmin(self._cluster.bootstrap_servers, timeout=TIMEOUT)

        def all_show() -> bool:
            return all(is_shown(topic_configs_at(asked, broker, resource, TIMEOUT)) for broker in BROKERS)

        try:
            eventually(all_show)
        finally:
            asked.close()


def _normal(value: str | None) -> str | None:
    """Kafka keeps lists as they are set, and shows them without blanks."""
    return value if value is None else value.replace(" ", "")


def eventually(holds: Callable[[], object], seconds: float = TIMEOUT) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class DiedError(Exception):
    """The controller has died."""


class Dying(Throttles):
    """Dies before Kafka is asked for the first time, or after."""

    dies = ""

    def _alter(self, changes: Mapping[Key, str | None], found: Found) -> dict[Key, RequestError]:
        if self.dies == "before":
            raise DiedError
        refused = super()._alter(changes, found)
        if self.dies == "after":
            raise DiedError
        return refused


class Controller:
    """The part of a controller that sets throttles."""

    def __init__(self, session: Session, admin: KafkaAdmin) -> None:
        self.session = session
        self.clock = Clock()
        self.throttles = Dying(session, admin, TIMEOUT, self.clock)

    def reconcile(self, needs: Mapping[int, Need]) -> list[str]:
        return self.throttles.reconcile(needs, threading.Event())

    def recorded(self) -> bool:
        return self.session.read(THROTTLES) is not None


@contextmanager
def controller(tree: str, admin: KafkaAdmin) -> Iterator[Controller]:
    session = Session(ZooKeeperSettings(tree, session_timeout=10.0), timeout=TIMEOUT)
    session.connect(TIMEOUT, [f"{ROOT}/admin"])
    try:
        assert session.claim("one", "http://nowhere", threading.Event()) is not None
        yield Controller(session, admin)
    finally:
        session.close()


def move(topic: str, partition: int, before: tuple[int, ...], after: tuple[int, ...]) -> Move:
    return Move(topic=topic, partition=partition, before=before, after=after)


def plus(configs: Configs, changes: Changes) -> Configs:
    """The configuration with some of it other than it was."""
    changed = {name: dict(values) for name, values in configs.items()}
    for resource, values in changes.items():
        for name, value in values.items():
            if value is None:
                changed[str(resource)].pop(name, None)
            else:
                changed[str(resource)][name] = value
    return changed


def both(rate: int) -> dict[str, str | None]:
    return {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
