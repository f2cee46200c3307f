"""How long the controller takes to say how far a very large reassignment is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_ordered_kafka.bench.figures import Spread
from spark_ordered_kafka.bench.requests import await_end, settle, start
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin

GOAL_MS = 200.0

_CALLS = 20


@dataclass(frozen=True)
class Status:
    """Milliseconds of a client's call for the status of a request, while it goes on and when it has ended.

    ``replicas``: rows of the answer.
    """

    replicas: int
    running: Spread
    ended: Spread
    goal: float = GOAL_MS


def measure_status(
    connection: Connection, admin: KafkaAdmin, topic: str, replicas: int, say: Callable[[str], None]
) -> Status:
    """Make a topic, have half as many partitions get two new replicas each, ask, and cancel what is left of it.

    :param replicas: rows of the answer, an even number.
    :raises OrderedKafkaError: the request was refused, or ended before it was asked for.
    """
    brokers = [broker.id for broker in admin.brokers()]
    count = replicas // 2
    home = {p: [brokers[p % len(brokers)]] for p in range(count)}
    admin.create_topic(topic, home, {})
    settle(admin, topic, home)
    say(f"asking how far {replicas} replicas are")
    with ControllerClient.of(connection) as controller:
        away = {p: [b for b in brokers if b not in home[p]][:2] for p in range(count)}
        request_id = start(controller, topic, away)
        running = _timed(controller, request_id, replicas, complete=False)
        controller.cancel_reassignment(request_id)
        await_end(controller, request_id)
        ended = _timed(controller, request_id, replicas, complete=True)
    return Status(replicas, running, ended)


def _timed(controller: ControllerClient, request_id: int, replicas: int, *, complete: bool) -> Spread:
    """Milliseconds of some calls, as long as the request goes on or, with ``complete``, after its end."""
    milliseconds = []
    for _ in range(_CALLS):
        begun = time.perf_counter()
        view = controller.reassignment(request_id)
        taken = 1000 * (time.perf_counter() - begun)
        if len(view.replicas) != replicas:
            raise OrderedKafkaError(
                f"the status of reassignment {request_id} has {len(view.replicas)} replicas, not {replicas}"
            )
        if view.complete != complete:
            break
        milliseconds.append(taken)
    if not milliseconds:
        raise OrderedKafkaError(f"reassignment {request_id} ended before its status was asked")
    return Spread.of(milliseconds)
