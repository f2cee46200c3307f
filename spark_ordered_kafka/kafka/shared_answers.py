"""One answer of controllers or brokers for all threads of a process that ask the same at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from copy import copy
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.attempts import without_frames

# Seconds without an answer after which a thread asks by itself: the question may be at a server that hangs, which its own client
# knows to avoid.
_PATIENCE = 1.0

_AnswerT = TypeVar("_AnswerT")


class SharedAnswer(Generic[_AnswerT]):
    """The answers to one question. A thread takes only what was asked for after it came, as if it had asked by itself.

    So of all that come while a question is under way, the first asks the next one, and the others wait for it (D-489).
    """

    def __init__(self) -> None:
        self._asking = threading.Lock()
        # How often the question was asked, which of these was answered last, and how.
        self._asked = self._answered = 0
        self._answer: _AnswerT | OrderedKafkaError

    def get(self, ask: Callable[[], _AnswerT]) -> _AnswerT:
        """The answer that ``ask`` gets, in this thread or in another one; raises what it raises.

        Retriable errors are answers. All others concern the thread that asked alone, as after its client was closed.
        """
        least = self._asked + 1
        answered = self._answered
        while not self._asking.acquire(timeout=_PATIENCE):
            if self._answered >= least:
                return _given(self._answer)
            if self._answered == answered:
                return ask()
            answered = self._answered
        try:
            if self._answered < least:
                self._asked += 1
                # Unless it raises: then the next thread asks.
                self._answer = _outcome(ask)
                self._answered = self._asked
            found = self._answer
        finally:
            self._asking.release()
        return _given(found)


class SharedAnswers:
    """The questions that threads of this process wait for at present."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """There are none: those of a process that has forked this one may be locked for ever."""
        self._lock = threading.Lock()
        self._questions: WeakValueDictionary[Hashable, SharedAnswer[object]] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._questions)

    def get(self, question: Hashable, ask: Callable[[], _AnswerT]) -> _AnswerT:
        """As :meth:`SharedAnswer.get`; ``question`` says what is asked, of whom, and as whom."""
        with self._lock:
            shared = self._questions.setdefault(question, SharedAnswer())
        return shared.get(ask)  # type: ignore[return-value]  # of the same question


SHARED_ANSWERS = SharedAnswers()
os.register_at_fork(after_in_child=SHARED_ANSWERS.reset)


def _given(answer: _AnswerT | OrderedKafkaError) -> _AnswerT:
    if isinstance(answer, OrderedKafkaError):
        raise copy(answer)
    return answer


def _outcome(ask: Callable[[], _AnswerT]) -> _AnswerT | OrderedKafkaError:
    try:
        return ask()
    except OrderedKafkaError as error:
        if not error.retriable:
            raise
        # Its frames lead to the producer instance that waits for the answer (D-120).
        return without_frames(error)
