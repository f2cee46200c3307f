"""Programs of operators: requests about topics, one after the other and two at once, judged by all that may be so by then.

The model is a set of states that a topic may be in. A request is entered by its answer: what does not allow that answer
is not the state. Where none is left, the answer breaks a promise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    AdoptTopicRequest,
    CreateTopicRequest,
    PartitionCountsRequest,
    ReleaseTopicRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.errors import RequestError

_TIMEOUT = 60.0
_DONE = "NONE"
_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
_INVALID_TOPIC = "INVALID_TOPIC_EXCEPTION"
"""KIP-195's word for a topic that is unknown to a request about several."""
_EXISTS = "TOPIC_ALREADY_EXISTS"
_CHANGING = "PARTITION_CHANGE_IN_PROGRESS"
_WRONG = "INVALID_PARTITIONS"
_INVALID = "INVALID_REQUEST"


@dataclass(frozen=True)
class State:
    """A topic.

    Attributes:
        kafka: partitions in Kafka; 0 without the topic.
        count: undeleted partitions; 0 where it is not under management.
        initial: with which it came under management.
        target: of a change that may be in progress.
        changes: that were committed.
    """

    kafka: int = 0
    count: int = 0
    initial: int = 0
    target: int = 0
    changes: int = 0

    def later(self) -> set[State]:
        """What it may have become meanwhile."""
        if not self.target:
            return {self}
        grown = replace(self, kafka=max(self.kafka, self.target))
        return {self, grown, replace(grown, count=self.target, target=0, changes=self.changes + 1)}


Outcome = tuple[str, State]


@dataclass(frozen=True)
class Request:
    """A request of the operator ``who`` about the topic ``t``."""

    who: int
    what: str
    count: int = 2
    wait: bool = True

    def code(self) -> str:
        """Python."""
        calls = {
            "create": f"create_topic(CreateTopicRequest(topic=t, partitions={self.count}, replication_factor=1))",
            "alter": (
                "alter_partition_counts(PartitionCountsRequest(topics=[TopicPartitionCount(topic=t,"
                f" partition_count={self.count})]){', wait=60' if self.wait else ''}).topics[0]"
            ),
            "cancel": "cancel_change(t)",
            "release": "release_topic(t, ReleaseTopicRequest())",
            "adopt": "adopt_topic(t, AdoptTopicRequest())",
            "delete": "delete_topic(t)",
        }
        return f"operator{self.who}.{calls[self.what]}"

    def outcomes(self, state: State) -> set[Outcome]:
        """The answers that the request may get, and what is so then."""
        return {pair for now in state.later() for pair in getattr(self, f"_{self.what}")(now)}

    def _create(self, state: State) -> set[Outcome]:
        if state.kafka:
            return {(_EXISTS, state)}
        return {(_DONE, State(self.count, self.count, self.count))}

    def _alter(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_INVALID_TOPIC, state)}
        if state.target:
            return {(_CHANGING, state)}
        if self.count < state.initial or self.count == state.count:
            return {(_WRONG, state)}
        begun = replace(state, target=self.count)
        if not self.wait:
            return {(_DONE, begun)}
        # The other operator may have cancelled it meanwhile.
        return {(_DONE, one) for one in begun.later() if not one.target}

    def _cancel(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if not state.target:
            return {(_INVALID, state)}
        # Requested, which the commit may still forestall.
        ended = {one if not one.target else replace(one, target=0) for one in state.later()}
        return {(_CHANGING, state)} | {(_DONE, one) for one in ended} | {(_DONE, state)}

    def _release(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        return {(_CHANGING, state)} if state.target else {(_DONE, State(state.kafka))}

    def _adopt(self, state: State) -> set[Outcome]:
        if state.count:
            return {(_EXISTS, state)}
        if not state.kafka:
            return {(_UNKNOWN, state)}
        return {(_DONE, State(state.kafka, state.kafka, state.kafka))}

    def _delete(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        return {(_CHANGING, state)} if state.target else {(_DONE, State())}


@dataclass(frozen=True)
class Turn:
    """A request, or two at once."""

    requests: tuple[Request, ...]

    def code(self) -> str:
        """Python."""
        first, *second = (one.code() for one in self.requests)
        return f"at_once(lambda: {first}, lambda: {second[0]})" if second else first


class OperatorsRun:
    """Runs turns about one topic, and judges each answer and what is there at the end."""

    def __init__(self, url: str, topic: str, turns: Iterable[Turn]) -> None:
        self.topic = topic
        self.lines: list[str] = []
        self._turns = list(turns)
        self._url = url
        self._states = {State()}

    def go(self) -> None:
        """Raises AssertionError with the code of what broke a promise."""
        with ControllerClient(self._url) as first, ControllerClient(self._url) as second:
            names = {"operator0": first, "operator1": second, "t": self.topic, **_SCHEMAS}
            for turn in self._turns:
                self._turn(turn, names)
            self._judge_end(first)

    def _turn(self, turn: Turn, names: dict[str, Any]) -> None:
        with ThreadPoolExecutor(len(turn.requests)) as threads:
            asked = [threads.submit(answer, eval, one.code(), names) for one in turn.requests]
            answers = [one.result(2 * _TIMEOUT) for one in asked]
        self.lines.append(f"{turn.code()}  # {' and '.join(answers)}")
        before = self._states
        self._states = after(turn.requests, answers, before)
        assert self._states, self._report(f"answered {answers}, where it was one of {before}")

    def _judge_end(self, client: ControllerClient) -> None:
        """Whatever was under way ends, and nothing is half done."""
        possible = {one for state in self._states for one in (state, *state.later())}
        managed = {one.topic for one in client.topics().topics}
        if self.topic not in managed:
            there = bool(client.kafka_topics([self.topic]).topics)
            left = [one for one in possible if not one.count and bool(one.kafka) == there]
            assert left, self._report(f"it is not managed, and in Kafka: {there}; it should be {possible}")
            return
        deadline = time.monotonic() + _TIMEOUT
        while client.change(self.topic).change is not None:
            assert time.monotonic() < deadline, self._report("a change does not end")
            time.sleep(0.02)
        view, layout = client.topic(self.topic), client.layout(self.topic)
        epochs = [one.epoch for one in layout.layouts]
        assert epochs == list(range(epochs[0], epochs[0] + len(epochs))), self._report(f"epochs {epochs}")
        assert epochs[-1] == view.layout_epoch, self._report(f"epoch {view.layout_epoch}, layouts {epochs}")
        assert layout.layouts[-1].undeleted_partition_count == view.undeleted_partition_count, self._report(
            str(layout)
        )
        found = (view.undeleted_partition_count, view.initial_partition_count)
        left = [one for one in possible if (one.count, one.initial) == found]
        assert left, self._report(f"count and initial count are {found}, and should be of {possible}")
        assert len(view.partitions) >= view.undeleted_partition_count, self._report(str(view.partitions))

    def _report(self, text: str) -> str:
        header = [
            "import os",
            "from spark_ordered_kafka import ControllerClient",
            f"from spark_ordered_kafka.client.schemas import {', '.join(sorted(_SCHEMAS))}",
            "operator0 = operator1 = ControllerClient(os.environ['ORDERED_KAFKA_CONTROLLER'])",
        ]
        return "\n".join([text, *header, f"t = {self.topic!r}", *self.lines])


_SCHEMAS = {
    one.__name__: one
    for one in (
        AdoptTopicRequest,
        CreateTopicRequest,
        PartitionCountsRequest,
        ReleaseTopicRequest,
        TopicPartitionCount,
    )
}


def answer(ask: Callable[..., Any], *arguments: Any) -> str:
    """The error of an answer, ``NONE`` without one."""
    try:
        return str(ask(*arguments).error)
    except RequestError as error:
        return error.name


def after(requests: tuple[Request, ...], answers: list[str], states: set[State]) -> set[State]:
    """The states that allow these answers, in one order of the requests or the other."""
    found: set[State] = set()
    pairs = list(zip(requests, answers, strict=True))
    orders = [pairs, pairs[::-1]]
    if len(pairs) == 2 and requests[0].what == requests[1].what in ("delete", "release"):
        # One that is under way is not begun again: both wait for it, and get its answer.
        orders += [pairs[:1]] if answers[0] == answers[1] else []
    for order in orders:
        left = states
        for request, answered in order:
            left = _entered(request, answered, left)
        found |= left
    if len(pairs) == 2:
        # While one waits for the change that it has begun, the other one is answered.
        for (request, answered), other in (pairs, pairs[::-1]):
            if request.what == "alter" and request.wait and answered == _DONE:
                begun = _entered(replace(request, wait=False), answered, states)
                ended = {one for state in _entered(*other, begun) for one in state.later()}
                found |= {one for one in ended if not one.target}
    return found


def _entered(request: Request, answered: str, states: set[State]) -> set[State]:
    return {state for one in states for said, state in request.outcomes(one) if said == answered}
