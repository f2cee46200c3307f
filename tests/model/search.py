"""A generic explicit-state search: every reachable state once, breadth first, so that a counterexample is a shortest one.

Two things are checked. *Safety*: no step reports a problem. *Progress*: from every reachable state a goal state can
still be reached, which rules out deadlocks and traps that go round for ever (CTL: AG EF goal).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np

StateT = TypeVar("StateT", bound=Hashable)
ActionT = TypeVar("ActionT")


class Model(Protocol[StateT, ActionT]):
    """What is searched. ``ActionT`` is only ever handed back to :meth:`describe`."""

    def initial(self) -> StateT:
        """The one initial state."""

    def successors(self, state: StateT) -> Iterator[tuple[ActionT, StateT, str | None]]:
        """Every possible next step: the action, the state after it, and what is wrong with it, if anything is."""

    def is_goal(self, state: StateT) -> bool:
        """Whether everything that was to be done is done."""

    def describe(self, action: ActionT, before: StateT, after: StateT) -> str:
        """The step as a line of a trace."""


@dataclass(frozen=True)
class Counterexample:
    """A shortest way from the initial state to a problem."""

    problem: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {line}" for number, line in enumerate(self.trace, 1))
        return f"{self.problem}\n{steps}"


@dataclass(frozen=True)
class Exploration:
    """What a search found. Without a counterexample, ``states`` and ``steps`` count all there are."""

    states: int
    steps: int
    seconds: float
    counterexample: Counterexample | None

    def __str__(self) -> str:
        counts = f"{self.states} states, {self.steps} steps, {self.seconds:.1f} s"
        return f"{counts}: {'no violation' if self.counterexample is None else self.counterexample}"


class Search(Generic[StateT, ActionT]):
    """One exhaustive search of a model. ``clock`` gives seconds."""

    def __init__(self, model: Model[StateT, ActionT], clock: Callable[[], float] = time.perf_counter) -> None:
        self._model = model
        self._clock = clock
        self._numbers: dict[StateT, int] = {}
        self._states: list[StateT] = []
        self._parents = array("q")
        self._sources = array("q")
        self._targets = array("q")

    @property
    def states(self) -> Sequence[StateT]:
        """The states found so far, in the order they were found."""
        return self._states

    def run(self) -> Exploration:
        """Explore until the first problem, or completely."""
        began = self._clock()
        found = self._explore()
        if found is None:
            found = self._find_trap()
        return Exploration(len(self._states), len(self._targets), self._clock() - began, found)

    def _explore(self) -> Counterexample | None:
        model, numbers, states = self._model, self._numbers, self._states
        self._add(model.initial(), -1)
        at = 0
        while at < len(states):
            for action, after, problem in model.successors(states[at]):
                if problem is not None:
                    last = model.describe(action, states[at], after)
                    return Counterexample(problem, (*self._trace(at), last))
                number = numbers.get(after)
                if number is None:
                    number = self._add(after, at)
                self._sources.append(at)
                self._targets.append(number)
            at += 1
        return None

    def _add(self, state: StateT, parent: int) -> int:
        number = self._numbers[state] = len(self._states)
        self._states.append(state)
        self._parents.append(parent)
        return number

    def _find_trap(self) -> Counterexample | None:
        """The first state from which no goal can be reached any more."""
        size = len(self._states)
        sources = np.frombuffer(self._sources, dtype=np.int64)
        targets = np.frombuffer(self._targets, dtype=np.int64)
        order = np.argsort(targets, kind="stable")
        before = sources[order]
        first = np.searchsorted(targets[order], np.arange(size + 1))
        safe = np.fromiter(map(self._model.is_goal, self._states), dtype=np.bool_, count=size)
        todo = np.flatnonzero(safe).tolist()
        while todo:
            at = todo.pop()
            for other in before[first[at] : first[at + 1]].tolist():
                if not safe[other]:
                    safe[other] = True
                    todo.append(other)
        if safe.all():
            return None
        trapped = int(np.argmin(safe))
        return Counterexample("from here not everything can be finished any more", self._trace(trapped))

    def _trace(self, number: int) -> tuple[str, ...]:
        path = [number]
        while self._parents[path[-1]] >= 0:
            path.append(self._parents[path[-1]])
        path.reverse()
        steps = pairwise(path)
        return tuple(self._describe_step(self._states[a], self._states[b]) for a, b in steps)

    def _describe_step(self, before: StateT, wanted: StateT) -> str:
        # Actions are not kept for every state: the few of a trace are worked out again.
        return next(
            self._model.describe(action, before, after)
            for action, after, _ in self._model.successors(before)
            if after == wanted
        )
