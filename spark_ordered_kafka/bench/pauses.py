"""How long a partition change keeps live producers from committing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka.bench.figures import Spread
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

GOAL = 1.0
_TIMEOUT = 60.0
# Some commit often and are measured, as a gap in rare commits would show little of a pause; the others keep
# transactions open.
_MEASURED, _MEASURED_INTERVAL_MS = 10, 100
_CROWD_INTERVAL_MS = 1_000
# Seconds between two records of a producer.
_PACE = 0.02
# Commits of every producer that a change is preceded and followed by.
_BEFORE, _AFTER = 5, 2


@dataclass(frozen=True)
class ChangePauses:
    """One change, in seconds.

    ``pauses``: that of each measured producer. ``usual``: their median time between two commits before. ``closing``:
    how long the controller let no writer begin.
    """

    source: int
    target: int
    pauses: tuple[float, ...]
    usual: float
    closing: float


@dataclass(frozen=True)
class Pauses:
    """Pauses over all measured producers and all changes, in seconds; ``producers``: how many were open.

    At most ten of them are measured.
    """

    producers: int
    seconds: Spread
    changes: tuple[ChangePauses, ...]
    goal: float


@dataclass
class _Writer:
    producer: OrderedProducer
    value: bytes
    # When delivery reports were served, which is after each commit.
    delivered: list[float] = field(default_factory=list)
    error: KafkaError | None = None

    def turn(self, topic: str, number: int) -> None:
        """Produce a record, and serve what was committed."""
        self.producer.produce(topic, self.value, b"key-%d" % number, on_delivery=self._on_delivery)
        if self.producer.poll(0) > 0:
            self.delivered.append(time.monotonic())
        if self.error is not None:
            raise KafkaException(self.error)

    def gaps(self, since: float, until: float) -> list[float]:
        """Seconds between commits, of those that end after ``since`` and begin before ``until``."""
        return [
            after - before for before, after in pairwise(self.delivered) if after > since and before < until
        ]

    def commits_after(self, moment: float) -> int:
        """Commits reported after ``moment``."""
        return sum(1 for at in reversed(self.delivered) if at > moment)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self.error = self.error or error


class _Load:
    """A thread in which all producers write slowly, so that each has a transaction open most of the time."""

    def __init__(self, topic: str, writers: Sequence[_Writer]) -> None:
        self._topic = topic
        self._writers = writers
        self._turned = threading.Condition()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load of the benchmark", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def settle(self, writers: Sequence[_Writer], commits: int) -> float:
        """Wait until each of ``writers`` has committed ``commits`` times from now on; the time then.

        Raises UnavailableError when that takes longer than a minute, or the error that ended the load.
        """
        since = time.monotonic()

        def settled() -> bool:
            return self._failure is not None or all(
                writer.commits_after(since) >= commits for writer in writers
            )

        with self._turned:
            if not self._turned.wait_for(settled, _TIMEOUT):
                late = sum(writer.commits_after(since) < commits for writer in writers)
                raise UnavailableError(
                    f"{late} of {len(writers)} producers did not commit {commits} times within {_TIMEOUT:g} s"
                )
        if self._failure is not None:
            raise self._failure
        return time.monotonic()

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.wait(_PACE):
                for writer in self._writers:
                    writer.turn(self._topic, number)
                    number += 1
                with self._turned:
                    self._turned.notify_all()
        except Exception as error:  # noqa: BLE001 - raised by settle()
            with self._turned:
                self._failure = error
                self._turned.notify_all()


def measure_pauses(
    connection: Connection,
    topic: str,
    *,
    producers: int,
    changes: int,
    value_bytes: int,
    say: Callable[[str], None],
) -> Pauses:
    """Let ``producers`` OrderedProducers write while the topic doubles its partitions, halves them, and so on.

    Ten of them commit every 100 ms and are measured, the others every second. The pause of a producer at a change is
    the longest time between two of its commits around it, less what is usual for it.

    Raises UnavailableError, KafkaException, or the error of a producer or a change that fails.
    """
    conf = {**connection.kafka, "controller.url": connection.controller_url}
    value = b"v" * value_bytes
    with ControllerClient.of(connection) as controller, ExitStack() as stack:

        def opened(interval_ms: int) -> _Writer:
            producer = OrderedProducer({**conf, "commit.interval.ms": interval_ms})
            return _Writer(stack.enter_context(producer), value)

        measured = [opened(_MEASURED_INTERVAL_MS) for _ in range(min(producers, _MEASURED))]
        everyone = measured + [opened(_CROWD_INTERVAL_MS) for _ in range(producers - len(measured))]
        load = _Load(topic, everyone)
        with load.running():
            say(f"opening {producers} producers")
            found = []
            for _ in range(changes):
                # All are back at work.
                load.settle(everyone, 1)
                found.append(_change(controller, topic, load, measured))
                spread = Spread.of(found[-1].pauses)
                say(
                    f"change {found[-1].source} to {found[-1].target} partitions: paused {spread.median:.2f} s,"
                    f" at most {spread.max:.2f} s"
                )
    seconds = Spread.of([pause for change in found for pause in change.pauses])
    return Pauses(producers, seconds, tuple(found), GOAL)


def _change(
    controller: ControllerClient, topic: str, load: _Load, writers: Sequence[_Writer]
) -> ChangePauses:
    calm = time.monotonic()
    before = load.settle(writers, _BEFORE)
    view = controller.topic(topic)
    initial, source = view.initial_partition_count, view.undeleted_partition_count
    target = 2 * initial if source == initial else initial
    request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=target)])
    (result,) = controller.alter_partition_counts(request, wait=_TIMEOUT).topics
    if result.error_code != ErrorCode.NONE:
        raise RequestError(ErrorCode(result.error_code), result.error_message or f"{topic} to {target}")
    last = controller.change(topic).last_change
    if last is None or last.id != result.change_id:
        raise UnavailableError(f"the change of {topic} to {target} partitions did not end in {_TIMEOUT:g} s")
    if last.outcome != "done":
        reason = "no reason given" if last.error is None else last.error.error_message
        raise OrderedKafkaError(f"the change of {topic} to {target} partitions was not done: {reason}")
    after = load.settle(writers, _AFTER)
    usual = [median(writer.gaps(calm, before)) for writer in writers]
    pauses = [
        max(0.0, max(writer.gaps(before, after)) - own) for writer, own in zip(writers, usual, strict=True)
    ]
    return ChangePauses(source, target, tuple(pauses), median(usual), last.writer_pause_seconds)
