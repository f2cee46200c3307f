"""Random histories in which logs lose what they had acknowledged, by unclean leader elections; new seeds in every run.

What the logs hold in the end is the measure: a group and a query have delivered all of it, once, each key in order. What
was lost they may have delivered before.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial

import pytest
from confluent_kafka import Message

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room
from tests.integration.unclean import CONFIG, UncleanElection
from tests.queries import Query, everything
from tests.seeds import fresh_seeds
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import CHANGE_TIMEOUT, NumberedWriter, judged_values, records_in_order

_MEMBERS = 2
_STEPS = 6

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class _Reading:
    """Calls ``read`` in a thread until the end, and adds what it returns to ``delivered``."""

    def __init__(
        self,
        read: Callable[[], Iterable[bytes]],
        close: Callable[[], object],
        delivered: list[bytes],
        pause: float = 0.0,
    ) -> None:
        self._read = read
        self._pause = pause
        self._delivered = delivered
        self._close = close
        self._ends = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="reading")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends.wait(self._pause):
                self._delivered.extend(self._read())
            self._close()
        except BaseException as failure:  # noqa: BLE001 - raised by end()
            self._failure = failure

    def end(self) -> None:
        self._ends.set()
        self._thread.join(4 * TIMEOUT)
        assert not self._thread.is_alive(), "a reader does not end"
        if self._failure is not None:
            raise self._failure


class _History:
    def __init__(self, cluster: LocalCluster, seed: int, stack: ExitStack) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._room = Room(cluster, stack)
        self._controller = stack.enter_context(ControllerClient(cluster.controller_url))
        self.topic = unique_name("unclean")
        self._count = self._chance.randint(1, 3)
        self._controller.create_topic(
            CreateTopicRequest(topic=self.topic, partitions=self._count, replication_factor=2, configs=CONFIG)
        )
        self._source = everything(cluster, self.topic, failOnDataLoss="false")
        self._query = Query(self._source)
        self.story: list[str] = [f"{self._count} partitions"]
        self._by_group: list[bytes] = []
        self._by_query: list[bytes] = []
        self._members = [self._member() for _ in range(_MEMBERS)]
        self._stream = self._reading_query()
        stack.callback(self._end)

    def step(self) -> None:
        chosen = self._chance.choices([self._lose, self._change, self._rejoin, self._restart], [3, 3, 2, 1])
        chosen[0]()

    def judge(self) -> None:
        """Raises AssertionError unless all that is left was delivered, once, each key in order."""
        left = [message.value() or b"" for message in records_in_order(self._cluster, self.topic)]
        _check_order(left)
        for delivered in (self._by_group, self._by_query):
            await_true(partial(_has_all, delivered, left), "all that is left", 6 * TIMEOUT)
        self._end()
        _check_order(self._by_query)
        # What a member adds before its next call counts as processed when others get later records of the key.
        _check_order(self._by_group)

    def _lose(self) -> None:
        partition = self._chance.randrange(self._count)
        self.story.append(f"partition {partition} loses records")
        election = UncleanElection(self._cluster, self.topic, partition)
        election.stop_follower()
        # How much is lost differs, and may be nothing.
        time.sleep(self._chance.random())
        election.stop_leader()
        election.elect_follower()
        election.restore()

    def _change(self) -> None:
        wanted = self._chance.choice([count for count in range(1, 6) if count != self._count])
        count = TopicPartitionCount(topic=self.topic, partition_count=wanted)
        for force in (False, True):
            request = PartitionCountsRequest(topics=[count], force=force)
            (result,) = self._controller.alter_partition_counts(request, wait=CHANGE_TIMEOUT).topics
            self.story.append(f"{wanted} partitions: {result.error}")
            if result.error != "LOG_TRUNCATED":
                break
        self._count = wanted if result.error == "NONE" else self._count

    def _rejoin(self) -> None:
        self.story.append("a member leaves, and another one joins")
        self._members.pop(0).end()
        self._members.append(self._member())

    def _restart(self) -> None:
        self.story.append("the query is started again")
        self._stream.end()
        self._query = Query(self._source, self._query.checkpoint)
        self._stream = self._reading_query()

    def _member(self) -> _Reading:
        member = self._room.member(self.topic)
        return _Reading(lambda: _values(member.read(0.3, 500)), member.consumer.close, self._by_group)

    def _reading_query(self) -> _Reading:
        query = self._query

        def read() -> list[bytes]:
            # As after a failed run of a query, which is started again at its checkpoint.
            with suppress(OrderedKafkaError):
                return [row["value"] for row in query.next_rows()]
            return []

        return _Reading(read, query.reader.stop, self._by_query, pause=0.1)

    def _end(self) -> None:
        for reading in (*self._members, self._stream):
            reading.end()


@pytest.mark.parametrize("seed", fresh_seeds(__name__, 2))
def test_what_is_left_is_read_once_and_in_order(three_brokers: LocalCluster, seed: int) -> None:
    with ExitStack() as stack:
        history = _History(three_brokers, seed, stack)
        try:
            with NumberedWriter(three_brokers, history.topic, keys=10).under_load():
                for _ in range(_STEPS):
                    history.step()
            history.judge()
        except BaseException as failure:
            failure.add_note("; ".join(history.story))
            raise


def _values(messages: Iterable[Message]) -> list[bytes]:
    return [message.value() or b"" for message in messages]


def _has_all(delivered: list[bytes], left: list[bytes]) -> bool:
    return set(left) <= set(delivered)


def _check_order(values: list[bytes]) -> None:
    """Raises AssertionError unless each key's numbers ascend; some may be missing."""
    report = judged_values(values)
    assert report.duplicated == report.out_of_order == 0, report
