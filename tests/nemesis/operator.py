"""Changes topics all the time until SIGTERM: ``python -m tests.nemesis.operator HISTORY NAME CONTROLLER SEED SETTINGS``.

CONTROLLER and SETTINGS are JSON: options of the connection; ``topics`` that are written and read, ``brokers`` by number,
``log_dirs`` by broker. Besides them there is a topic without records, ``churn``, whose removed partitions are deleted at once. What was asked for and answered is in the history.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from tests.nemesis.cluster import controller_client
from tests.nemesis.journal import Journal

CHURN = "churn"
MOST = 8
"""Partitions of a topic."""


class Operator:
    """Draws what to do next. Every action returns what was asked for and the names of the errors in the answer."""

    def __init__(
        self, client: ControllerClient, rng: random.Random, settings: dict[str, dict[str, list[str]]]
    ) -> None:
        self._client = client
        self._rng = rng
        self._topics = [*settings["topics"], CHURN]
        self._log_dirs = {int(broker): paths for broker, paths in settings["log_dirs"].items()}
        self.actions: dict[str, tuple[int, Callable[[], tuple[object, list[str]]]]] = {
            "change partitions": (14, self._change),
            "cancel the change": (1, self._cancel_change),
            "reassign": (6, self._reassign),
            "cancel the reassignment": (2, self._cancel),
            "change the throttle": (1, self._throttle),
            "move between log dirs": (4, self._move),
            "change the replication factor": (3, self._factor),
            "balance": (1, self._balance),
            "set guard rails": (2, self._guard),
            "retire": (2, self._retire),
            "churn": (2, self._churn),
        }

    def draw(self) -> str:
        """The name of the next action."""
        return self._rng.choices(list(self.actions), [weight for weight, _ in self.actions.values()])[0]

    def _change(self) -> tuple[object, list[str]]:
        topic, count = self._rng.choice(self._topics), self._rng.randint(2, MOST)
        request = schemas.TopicPartitionCount(topic=topic, partition_count=count)
        answer = self._client.alter_partition_counts(schemas.PartitionCountsRequest(topics=[request]))
        return [topic, count], [one.error for one in answer.topics]

    def _cancel_change(self) -> tuple[object, list[str]]:
        topic = self._rng.choice(self._topics)
        return topic, [self._client.cancel_change(topic).error]

    def _placed(self, topic: str) -> list[schemas.PartitionView]:
        placed = self._client.topic(topic).partitions
        return self._rng.sample(placed, self._rng.randint(1, len(placed)))

    def _reassign(self) -> tuple[object, list[str]]:
        topic, brokers = self._rng.choice(self._topics), sorted(self._log_dirs)
        rows = [
            schemas.PartitionReassignment(
                topic=topic, partition=one.partition, replicas=self._rng.sample(brokers, len(one.replicas))
            )
            for one in self._placed(topic)
        ]
        return self._begin(rows, topic)

    def _begin(self, rows: list[schemas.PartitionReassignment], about: object) -> tuple[object, list[str]]:
        rate = self._rng.choice((None, 200_000, 2_000_000))
        request = schemas.ReassignmentRequest(partitions=rows, throttle=rate, additional=True)
        answer = self._client.reassign(request)
        return [about, len(rows), rate, answer.request_id], [one.error for one in answer.partitions]

    def _balance(self) -> tuple[object, list[str]]:
        plan = self._client.plan_reassignment(
            schemas.ReassignmentPlanRequest(goal="balance", topics=self._topics)
        )
        rows = [
            schemas.PartitionReassignment(topic=one.topic, partition=one.partition, replicas=one.replicas)
            for one in plan.partitions
        ]
        return self._begin(rows, "all") if rows else ("nothing to move", [])

    def _cancel(self) -> tuple[object, list[str]]:
        answer = self._client.cancel_reassignment("latest")
        return answer.request_id, [one.error for one in answer.partitions]

    def _throttle(self) -> tuple[object, list[str]]:
        rate = self._rng.choice((None, 500_000, 5_000_000))
        self._client.alter_reassignment_throttle("latest", schemas.ReassignmentThrottleRequest(throttle=rate))
        return rate, []

    def _move(self) -> tuple[object, list[str]]:
        topic = self._rng.choice(self._topics)
        rows = [
            schemas.ReplicaLogDir(
                topic=topic,
                partition=one.partition,
                broker=broker,
                log_dir=self._rng.choice(self._log_dirs[broker]),
            )
            for one in self._placed(topic)
            for broker in [self._rng.choice(one.replicas)]
        ]
        answer = self._client.alter_replica_log_dirs(schemas.ReplicaLogDirsRequest(replicas=rows))
        return [topic, len(rows), answer.request_id], [one.error for one in answer.replicas]

    def _factor(self) -> tuple[object, list[str]]:
        # Of a topic without records: where a partition has no leader for a moment, as one of two replicas may have, Kafka
        # 4.3 drops the end of its transactions.
        topic, factor = CHURN, self._rng.choice((1, 2, 3))
        request = schemas.TopicReplicationFactor(topic=topic, replication_factor=factor)
        answer = self._client.alter_replication_factors(schemas.ReplicationFactorsRequest(topics=[request]))
        return [topic, factor], [one.error for one in answer.topics]

    def _guard(self) -> tuple[object, list[str]]:
        broker, limit = self._rng.choice(sorted(self._log_dirs)), self._rng.choice((None, 20, 40, 60))
        self._client.set_guard_rails(broker, schemas.GuardRailsRequest(max_partitions=limit))
        return [broker, limit], []

    def _retire(self) -> tuple[object, list[str]]:
        answer = self._client.delete_records(CHURN, schemas.DeleteRecordsRequest())
        return CHURN, [one.error for one in answer.partitions]

    def _churn(self) -> tuple[object, list[str]]:
        """Delete the topic without records, or make it again."""
        if any(one.topic == CHURN for one in self._client.topics().topics):
            return "delete", [self._client.delete_topic(CHURN).error]
        request = schemas.CreateTopicRequest(
            topic=CHURN, partitions=self._rng.randint(1, 3), replication_factor=2
        )
        return "create", [self._client.create_topic(request).error]


def main(history: str, name: str, controller: str, seed: str, settings: str) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal, rng = Journal(Path(history), name), random.Random(seed)
    with controller_client(json.loads(controller), retry_for=10.0) as client:
        operator = Operator(client, rng, json.loads(settings))
        while not stop.wait(rng.uniform(0.3, 3.0)):
            what = operator.draw()
            try:
                about, errors = operator.actions[what][1]()
            except OrderedKafkaError as error:
                journal.note("operate", what=what, errors=[error.name], message=str(error)[:300])
            else:
                found = sorted({one for one in errors if one != ErrorCode.NONE.name})
                journal.note("operate", what=what, about=about, errors=found)
    journal.note("goodbye")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
