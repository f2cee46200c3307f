"""Descriptions of topics and of the cluster by librdkafka's admin client."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.kafka.attempts import interrupt_of
from spark_ordered_kafka.kafka.clients import new_client
from spark_ordered_kafka.kafka.properties import admin_properties

# Seconds for questions to end, each of which runs out of time by itself.
_LONGEST = 60.0

_AnswerT = TypeVar("_AnswerT")


class Descriptions:
    """An admin client that may be closed, or forgotten, whatever it has asked.

    librdkafka crashes the process when a client is destroyed while it handles the answer to such a question (D-456): so the
    client stays until its last question has its answer, or has run out of time.

    Args:
        kafka: librdkafka's properties of the connection.
    """

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._admin = new_client(AdminClient, admin_properties(kafka))
        self._asked: set[Future[Any]] = set()
        self._end = weakref.finalize(self, _release, self._admin, self._asked)
        # No thread can be started when the interpreter ends.
        self._end.atexit = False

    def __enter__(self) -> Descriptions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing more. May be called twice."""
        self._end()
        vars(self).pop("_admin", None)

    def poll(self, timeout: float) -> int:
        """Serve ``error_cb``; how many events there were."""
        served: int = self._admin.poll(timeout)
        return served

    def topic(self, topic: str, timeout: float) -> Future[Any]:
        """confluent-kafka's TopicDescription of a topic, within ``timeout`` seconds. Never creates it."""
        return self.topics([topic], timeout)[topic]

    def topics(self, topics: list[str], timeout: float) -> dict[str, Future[Any]]:
        """As :meth:`topic` of each, by one request."""
        wanted = TopicCollection(topics)
        futures = _interruptible(lambda: self._admin.describe_topics(wanted, request_timeout=timeout))
        for future in futures.values():
            self._note(future)
        return futures

    def cluster(self, timeout: float) -> Future[Any]:
        """confluent-kafka's DescribeClusterResult, within ``timeout`` seconds."""
        future = _interruptible(lambda: self._admin.describe_cluster(request_timeout=timeout))
        self._note(future)
        return future

    def _note(self, future: Future[Any]) -> None:
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)


def _interruptible(ask: Callable[[], _AnswerT]) -> _AnswerT:
    try:
        return ask()
    except SystemError as error:
        raise interrupt_of(error) from None


def _release(admin: AdminClient, asked: Collection[Future[Any]]) -> None:
    """Let go of a client, now or when it has all answers."""
    left = list(asked)
    if left:
        keeping = threading.Thread(target=_keep, args=(admin, left), name="admin client", daemon=True)
        keeping.start()


def _keep(_: AdminClient, asked: Collection[Future[Any]]) -> None:
    wait(asked, _LONGEST)
