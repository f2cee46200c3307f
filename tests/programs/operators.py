"""Programs of operators: requests about two topics, one after the other and two at once, of another tool as well.

They are judged by all that may be so by then, and by the records that are written meanwhile: see ``operator_requests``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.local import LocalCluster
from tests.programs.operator_prelude import KEYS, RECORDS, Operators, Row, row_of
from tests.programs.operator_requests import (
    AGAIN,
    BROKER_DOWN,
    DONE,
    MOVED,
    REFUSED,
    Asked,
    Request,
    after,
)
from tests.programs.operator_states import State, possible
from tests.programs.operator_tries import TIMEOUT, Tries, at_once
from tests.programs.restarts import Restarts
from tests.programs.running import BrokenPromiseError
from tests.programs.steps import Restart
from tests.servers import await_decided, await_true
from tests.streams import raw_records

TOPICS = 2
CLIENTS = ("write", "read")


@dataclass(frozen=True)
class Turn:
    """A request, or two at once."""

    requests: tuple[Request, ...]

    def code(self) -> str:
        """Python."""
        calls = [one.code() for one in self.requests]
        return calls[0] if len(calls) == 1 else f"at_once({', '.join(f'lambda: {one}' for one in calls)})"


class OperatorsRun:
    """Runs turns about the topics, and judges each answer and what is there at the end."""

    def __init__(self, cluster: LocalCluster, turns: Iterable[Turn | Restart]) -> None:
        self.lines: list[str] = []
        self.seconds = 0.0
        # Batches of which records may have been deleted before they were read.
        self.lossy: set[int] = set()
        self._turns = list(turns)
        self._has_restarts = any(isinstance(turn, Restart) for turn in self._turns)
        requests = [one for turn in self._turns if isinstance(turn, Turn) for one in turn.requests]
        # One thing after the other, and nothing by another tool: then no broker has more than its limit.
        self._is_calm = not self._has_restarts and all(
            isinstance(turn, Turn) and len(turn.requests) == 1 and _is_calm(turn.requests[0])
            for turn in self._turns
        )
        self._writers = {one.batch: one.who for one in requests if one.what == "write"}
        self._cluster = cluster
        self._restarts = Restarts(cluster)
        self._use = Operators(
            cluster.bootstrap_servers, cluster.controller_url.split(","), restart=self._restart
        )
        self._topics = [self._use.topic(f"operated{number}") for number in range(TOPICS)]
        self._states = [{State()} for _ in range(TOPICS)]
        self._lives: dict[tuple[str, int, int], frozenset[int]] = {}
        self._names: dict[str, Any] = {"use": self._use, "at_once": at_once}
        self._names |= {f"t{number}": topic for number, topic in enumerate(self._topics)}

    def __str__(self) -> str:
        return f"{len(self.lines)} turns; {self.seconds:.1f} s"

    def go(self) -> OperatorsRun:
        """Raises BrokenPromiseError with the code of what broke a promise."""
        begun = time.monotonic()
        try:
            for turn in self._turns:
                if isinstance(turn, Turn):
                    self._turn(turn)
                else:
                    self.lines.append(turn.code())
                    eval(turn.code(), self._names)
            self._restarts.wait()
            self._use.close_consumers()
            for number in range(TOPICS):
                _JudgeOfEnd(
                    self, self._cluster, self._use, self._topics[number], self._states[number]
                ).judge()
        finally:
            self._restarts.wait()
            self._use.delete(0, self._topics)
            for topic in self._topics:
                self._use.erase([topic])
            self._use.close()
            self.seconds = time.monotonic() - begun
        return self

    def _restart(self, server: str) -> None:
        self._restarts.wait()
        if server.startswith("broker"):
            # Kafka 4.3 drops the commits that it has not carried out when its only broker is killed: docs/reliability.md.
            for topic in self._topics:
                await_decided(self._cluster.bootstrap_servers, topic)
        self._restarts.restart(server)

    def _turn(self, turn: Turn) -> None:
        found: Any = eval(turn.code(), self._names)
        all_tries: list[Tries] = found if len(turn.requests) > 1 else [found]
        self.lines.append(f"{turn.code()}  # {' and '.join(map(str, all_tries))}")
        for number, before in enumerate(self._states):
            asked = [
                Asked(request, _about(number, request, tries), self._lives_of(request, number))
                for request, tries in zip(turn.requests, all_tries, strict=True)
                if number in request.topics
            ]
            if not asked:
                continue
            for one in asked:
                if one.answers[-1] in AGAIN:
                    raise self.broken(f"{one.request.code()} is not answered")
            if asked[0].answers[-1] in BROKER_DOWN and not self._has_restarts:
                raise self.broken("all brokers run")
            if len(turn.requests) == 1 and asked[0].answers[-1] in MOVED - {"done"}:
                raise self.broken(f"nothing was in the way of moving t{number}")
            self._states[number] = after(asked, before)
            if not self._states[number]:
                raise self.broken(f"this was answered about t{number}, where it was one of {before}")
            for one in asked:
                self._note_life(one, number)
                if one.request.what == "trim" and not one.request.dry:
                    self._trimmed(one.request, number)

        if self._is_calm and self._use.limited:
            brokers = self._use.clients[0].brokers().brokers
            if full := [one for one in brokers if one.id in self._use.limited and one.excess]:
                raise self.broken(f"beyond their limits: {full}")

    def _lives_of(self, request: Request, number: int) -> frozenset[int]:
        none = frozenset(state.life for state in possible(self._states[number]))
        return self._lives.get((request.what, request.who, number), none)

    def _note_life(self, asked: Asked, number: int) -> None:
        request = asked.request
        if request.what in CLIENTS and asked.answers[-1] == DONE:
            lives = frozenset(state.life for state in self._states[number])
            self._lives[request.what, request.who, number] = lives

    def _trimmed(self, request: Request, number: int) -> None:
        """What no group has committed to have read of a topic may be lost with what is deleted."""
        written = {batch for state in self._states[number] for batch in state.written}
        done = [one for one in self._use.deliveries[self._topics[number]] if one.committed]
        if request.force or not any(row[1] in written for one in done for row in one.rows):
            self.lossy |= written

    def rows_of(self, batches: Iterable[int]) -> set[Row]:
        """What their writers wrote."""
        return {
            (f"w{self._writers[batch]}k{key}", batch, number)
            for batch in batches
            for key in range(KEYS)
            for number in range(RECORDS)
        }

    def broken(self, text: str) -> BrokenPromiseError:
        """The error, with the code of the program."""
        header = [
            "from tests.programs.operator_prelude import from_environment",
            "from tests.programs.operator_tries import at_once",
            "use = from_environment()",
            *(f"t{number} = use.topic('operated{number}')" for number in range(TOPICS)),
        ]
        return BrokenPromiseError("\n".join([text, "", *header, *self.lines, "use.close()"]))


def check_operators(cluster: LocalCluster, turns: Iterable[Turn | Restart]) -> OperatorsRun:
    """Run a program and return its run; raises BrokenPromiseError with its code if it broke a promise."""
    return OperatorsRun(cluster, turns).go()


def _about(number: int, request: Request, tries: Tries) -> tuple[str, ...]:
    at = request.topics.index(number)
    answers = [answers[at if len(answers) > at else 0] for answers in tries]
    if request.what in CLIENTS:
        answers = [answer if answer == DONE or answer in AGAIN else REFUSED for answer in answers]
    return tuple(answers)


def _is_calm(request: Request) -> bool:
    return request.wait and request.what not in ("make", "grow")


class _JudgeOfEnd:
    """Whatever was under way ends, nothing is half done, and the records are there in order."""

    def __init__(
        self, run: OperatorsRun, cluster: LocalCluster, use: Operators, topic: str, states: set[State]
    ) -> None:
        self._run = run
        self._cluster = cluster
        self._client = use.clients[0]
        self._topic = topic
        self._use = use
        self._possible = possible(states)

    def judge(self) -> None:
        """Raises BrokenPromiseError."""
        managed = self._is_managed()
        if managed:
            self._await(lambda: self._client.change(self._topic).change, "a change does not end")
        kafka = self._kafka()
        self._leave(lambda one: (one.count > 0) == managed, f"under management: {managed}")
        self._leave(lambda one: one.kafka == kafka, f"partitions in Kafka: {kafka}")
        self._leave(lambda one: not one.is_changing, "no change is in progress")
        self._await(self._moving, "a reassignment does not end")
        rows = self._read_raw(kafka)
        found = {batch for _, batch, _ in rows}
        self._leave(
            lambda one: one.written == found or (one.trimmed and one.written >= found),
            f"batches in Kafka: {sorted(found)}",
        )
        if all(state.can_be_written for state in self._possible):
            self._judge_layouts(kafka)
            self._judge_delivery(rows)

    def _leave(self, holds: Any, what: str) -> None:
        left = {one for one in self._possible if holds(one)}
        if not left:
            raise self._broken(f"{what}; it should be one of {self._possible}")
        self._possible = left

    def _moving(self) -> list[object]:
        found = self._client.reassignments()
        return [*found.ongoing, *(one for one in found.requests if not one.complete)]

    def _is_managed(self) -> bool:
        return self._topic in {one.topic for one in self._client.topics().topics}

    def _kafka(self) -> int:
        found = self._client.kafka_topics([self._topic]).topics
        return len(found[0].partitions) if found else 0

    def _judge_layouts(self, kafka: int) -> None:
        def newest() -> schemas.LayoutView:
            return self._client.layout(self._topic).layouts[-1]

        def uncovered() -> schemas.LayoutView | None:
            return None if len(newest().starts) == kafka else newest()

        # Those of another tool are covered by the next check of all topics.
        self._await(uncovered, f"the newest layout does not cover {kafka} partitions")
        view, layouts = self._client.topic(self._topic), self._client.layout(self._topic).layouts
        epochs = [one.epoch for one in layouts]
        if epochs != [*range(epochs[0], epochs[0] + len(epochs))] or epochs[-1] != view.layout_epoch:
            raise self._broken(f"epoch {view.layout_epoch}, layouts {epochs}")
        counts = (view.initial_partition_count, view.undeleted_partition_count)
        self._leave(lambda one: (one.initial, one.count) == counts, f"initial and undeleted count: {counts}")
        if newest().undeleted_partition_count != counts[1]:
            raise self._broken(f"the newest layout has another count than {counts[1]}")

    def _judge_delivery(self, there: Sequence[Row]) -> None:
        """By a new group, which gets what is there, and by the group that has read all the while, which gets all."""
        ordered = all(state.ordered for state in self._possible)
        rows = self._drained(f"new-{self._topic}", len(there))
        self._judge_rows("a new group", rows, set(there), set(there), ordered)
        sure = frozenset.intersection(*(state.written for state in self._possible)) - self._run.lossy
        must = set(there) | self._run.rows_of(sure)
        may = must | self._run.rows_of(frozenset.union(*(state.written for state in self._possible)))
        before = self._use.deliveries[self._topic]
        known = [row for one in before if one.committed for row in one.rows if row in may]
        unsure = {row for one in before if one.is_unsure for row in one.rows if row in may} - set(known)
        rows = known + self._drained(f"group-{self._topic}", len(must - set(known)), len(unsure))
        # A commit whose answer was lost may have been done.
        rows += sorted((must & unsure) - set(rows))
        self._judge_rows("the group that read all the while", rows, must, may, ordered and not unsure)

    def _judge_rows(
        self, who: str, rows: Sequence[Row], must: set[Row], may: set[Row], ordered: bool
    ) -> None:
        report = _verdict(rows)
        lost, strange = sorted(must - set(rows)), sorted(set(rows) - may)
        if lost or strange or report.duplicated or (ordered and report.violations):
            raise self._broken(f"{who}: lost {lost}, should not have got {strange}, {report}")

    def _drained(self, group: str, expected: int, unsure: int = 0) -> list[Row]:
        """What the group delivers; of so many records some may not come."""
        conf = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "controller.url": self._cluster.controller_url,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
        rows: list[Row] = []
        deadline = time.monotonic() + (TIMEOUT if not unsure else 5.0)
        with OrderedConsumer(conf) as consumer:
            consumer.subscribe([self._topic])
            while len(rows) < expected and time.monotonic() < deadline:
                rows += map(row_of, consumer.consume(1000, 0.2))
            rows += map(row_of, consumer.consume(1000, 0.2))
        return rows

    def _read_raw(self, partitions: int) -> list[Row]:
        return (
            [row_of(one) for one in raw_records(self._cluster, self._topic, partitions)] if partitions else []
        )

    def _await(self, left: Callable[[], object], what: str) -> None:
        """Wait until there is nothing left; the error says what is."""
        last: object = None

        def is_over() -> bool:
            nonlocal last
            try:
                last = left()
            except OrderedKafkaError as error:
                if not error.retriable:
                    raise
                last = str(error)
            return not last

        try:
            await_true(is_over, what, TIMEOUT)
        except (AssertionError, OrderedKafkaError) as error:
            raise self._broken(f"{error}: {last}") from error

    def _broken(self, text: str) -> BrokenPromiseError:
        return self._run.broken(f"{self._topic}: {text}")


def _verdict(rows: Sequence[Row]) -> Report:
    """The checker's, of order and duplicates; the batches of a writer are numbered as they are written."""
    numbers: dict[str, int] = defaultdict(int)
    numbered: dict[Row, int] = {}
    for row in sorted(set(rows)):
        numbered[row] = numbers[row[0]]
        numbers[row[0]] += 1
    return check(
        np.array([key for key, _, _ in rows]), np.array([numbered[row] for row in rows]), len(numbered)
    )
