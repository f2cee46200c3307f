"""Draws programs that read by position."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.programs.read_steps import (
    EARLIEST,
    LATEST,
    Batch,
    Change,
    Cut,
    Follow,
    Foreign,
    Next,
    Position,
    ReadStep,
    Write,
)

_topics = st.integers(0, 1)
_subscribed = st.sampled_from(((0,), (0,), (1,), (0, 1)))
# Some before the first record, some after the last.
_seconds = st.integers(-2, 14) | st.just(10_000)
_percent = st.sampled_from((EARLIEST, LATEST, 0, 10, 30, 50, 80, 100))


def _positions(never: int, *kinds: str) -> st.SearchStrategy[Position]:
    """``never``: an offset that such a position may not have."""

    def at(kind: str) -> st.SearchStrategy[Position]:
        values = _percent.filter(lambda one: one != never) if kind == "offsets" else _seconds
        return st.builds(
            Position,
            kind=st.just(kind),
            at=st.lists(values, min_size=1, max_size=4).map(tuple),
            latest=st.sampled_from((True, True, False)),
        )

    return st.sampled_from(kinds).flatmap(at)


_starts = _positions(0, "earliest", "latest", "offsets", "offsets", "time", "times")
_batch_starts = _positions(LATEST, "earliest", "offsets", "offsets", "time", "times")
_ends = _positions(EARLIEST, "latest", "latest", "offsets", "time", "times")

_writes = st.builds(
    Write,
    keys=st.lists(st.integers(0, 5), min_size=1, max_size=6).map(tuple),
    times=st.integers(1, 4),
    topic=_topics,
    at=st.none() | st.integers(0, 12),
)
_steps: tuple[st.SearchStrategy[ReadStep], ...] = (
    _writes,
    _writes,
    st.builds(Change, count=st.integers(2, 6), topic=_topics),
    st.builds(Foreign, st.integers(0, 5), st.integers(1, 3), _topics, st.booleans()),
    st.builds(Cut, st.sampled_from((20, 50, 100)), _topics),
    st.builds(Batch, _batch_starts, _ends, _subscribed, st.booleans()),
    st.builds(Batch, _batch_starts, _ends, _subscribed),
    st.builds(
        Follow,
        _starts,
        _subscribed,
        st.sampled_from((None, 3, 10, 30)),
        st.sampled_from((None, 1, 10)),
        st.booleans(),
    ),
    st.builds(Next, st.integers(1, 3), st.booleans()),
)


@st.composite
def reading_programs(draw: st.DrawFn, most: int = 16) -> list[ReadStep]:
    """Programs that begin with something to read."""
    least = draw(st.sampled_from((1, most // 2, most // 2)))
    kinds = st.integers(0, len(_steps) - 1)
    return [draw(_writes), *draw(st.lists(kinds.flatmap(_steps.__getitem__), min_size=least, max_size=most))]
