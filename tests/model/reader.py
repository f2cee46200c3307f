"""The reader (``spark/stream.py``): end offsets, layout, gate, delivery; and the judge of what it delivers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.controller import COMMIT, ChangeMachine
from tests.model.logs import gated, gated_by_parents, record_of, shifted, stable_end
from tests.model.state import Config, Program, State, Step
from tests.model.writers import with_part

_EVERYTHING = (-1,)


class Reader:
    """The steps of the reader."""

    def __init__(self, config: Config, program: Program, machine: ChangeMachine) -> None:
        self._counts = config.counts
        self._program = program
        self._machine = machine
        self._gate = gated_by_parents if config.breaks("all earlier epochs") else gated
        self._judge_epochs = config.judge_epochs
        self._gated = not config.breaks("gate")
        self._layout_first = config.breaks("ends, then layout")
        self._commit_first = config.breaks("process, then commit")
        self._read_open = config.breaks("last stable offset")

    def steps(self, state: State) -> Iterator[Step]:
        """All that the reader may do next.

        ``state.held``: in a correct reader :data:`_EVERYTHING` while it holds ends (in the partitions), else (). One that
        takes the layout first holds the number of layouts, one that commits first the records it has yet to deliver.
        """
        if self._commit_first:
            yield from self._committing_first(state)
            return
        yield from self._reads(state)
        if state.held:
            yield ("reader crash", 0, 0), released(state), None
        elif self._machine.kind(state.node) == COMMIT:
            yield from self._take_hold(state)

    def skip_empty(self, state: State) -> State:
        """The state after everything empty in front of the reader is passed, as far as the gate permits."""
        moved = True
        while moved:
            moved = False
            for partition, part in enumerate(state.parts):
                if part.entries and not part.entries[0]:
                    until = self._until(state, partition, stable_end(part.entries), state.epoch + 1)
                    empty = next((i for i, value in enumerate(part.entries) if value), len(part.entries))
                    if until:
                        state = with_part(state, partition, shifted(part, min(until, empty)))
                        moved = True
        return state

    def _take_hold(self, state: State) -> Iterator[Step]:
        """Ends, or a broken reader's layout, just before a layout is committed."""
        if self._layout_first:
            yield ("take layout", 0, state.epoch), state._replace(held=(state.epoch + 1,)), None
            return
        parts = tuple(part._replace(held=self._end(part.entries)) for part in state.parts)
        if any(part.held for part in parts):
            yield ("take ends", 0, 0), state._replace(held=_EVERYTHING, parts=parts), None

    def _end(self, entries: tuple[int, ...]) -> int:
        return len(entries) if self._read_open else stable_end(entries)

    def _until(self, state: State, partition: int, end: int, layouts: int) -> int:
        if not self._gated or not end:
            return end
        starts = tuple(part.starts[: layouts - 1] for part in state.parts)
        return self._gate(self._counts[0], self._counts[:layouts], starts, partition, end)

    def _reads(self, state: State) -> Iterator[Step]:
        """Any part of what may be read, of one partition."""
        layouts = state.held[0] if self._layout_first and state.held else state.epoch + 1
        for partition, part in enumerate(state.parts):
            end = self._end(part.entries) if part.held < 0 else part.held
            until = self._until(state, partition, end, layouts)
            for stop in range(1, until + 1):
                # Stopping before something empty is stopping behind it, see skip_empty.
                if stop == until or part.entries[stop]:
                    yield self._read(state, partition, stop, layouts)

    def _read(self, state: State, partition: int, stop: int, layouts: int) -> Step:
        part = state.parts[partition]
        delivered, problem = list(state.delivered), None
        for offset, value in enumerate(part.entries[:stop]):
            if value:
                problem = problem or self._deliver(delivered, value)
                epoch = sum(start <= offset for start in part.starts[: layouts - 1])
                if self._judge_epochs and problem is None and not self._alike(epoch, record_of(value)[1]):
                    name = self._program.name(record_of(value)[0])
                    problem = f"{name} is delivered as one of layout {epoch}"
        after = with_part(state, partition, shifted(part, stop))._replace(delivered=tuple(delivered))
        return ("read", partition, stop), after, problem

    def _alike(self, shown: int, written: int) -> bool:
        """Whether nothing but layouts of the same count lies between the two."""
        first, last = sorted((shown, written))
        return len(set(self._counts[first : last + 1])) == 1

    def _deliver(self, delivered: list[int], value: int) -> str | None:
        record, _ = record_of(value)
        if record >= self._program.per_writer:
            return None  # an open one, of a writer that is not judged
        key, place = self._program.keys[record], self._program.places[record]
        if delivered[key] != place:
            name = self._program.name(record)
            return f"{name} is delivered {'twice' if delivered[key] > place else 'too early'}"
        delivered[key] += 1
        return None

    def _committing_first(self, state: State) -> Iterator[Step]:
        if not state.held:
            for action, after, problem in self._reads(state):
                part = state.parts[action[1]]
                records = tuple(value for value in part.entries[: action[2]] if value)
                yield action, after._replace(delivered=state.delivered, held=records), problem
            return
        delivered, problem = list(state.delivered), None
        for value in state.held:
            problem = problem or self._deliver(delivered, value)
        yield ("deliver", 0, 0), state._replace(delivered=tuple(delivered), held=()), problem
        yield ("reader crash", 0, 0), state._replace(held=()), None


def released(state: State) -> State:
    """``state`` with nothing in the reader's hands."""
    return state._replace(held=(), parts=tuple(part._replace(held=-1) for part in state.parts))
