"""What programs hypothesis draws: every step makes sense wherever it stands, so that any of them can be left out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.programs.steps import (
    FOREIGN_ENDS,
    OF_BOTH,
    OF_CONSUMERS,
    OF_PRODUCERS,
    SERVERS,
    TUNED,
    Act,
    Change,
    Consume,
    Delete,
    Foreign,
    Grow,
    Member,
    Program,
    Restart,
    Seek,
    Step,
    Subscribe,
    Write,
)

MOST_STEPS = 20
_MEMBER = st.sampled_from((0, 0, 0, 0, 1, 1, 2))
_KEYS = st.lists(st.sampled_from(("k0", "k1", "k2", "k3", "k4", None)), min_size=1, max_size=6).map(tuple)
_SOURCES = st.sampled_from((("a",), ("a",), ("a", "b"), ("b",)))
_TOPIC = st.sampled_from(("a", "a", "a", "b", "out"))
_SELDOM = st.sampled_from((False, False, True))
_COUNTS = st.integers(2, 5)

members = st.builds(
    Member,
    topics=st.sampled_from((("a",), ("a", "b"))),
    pattern=_SELDOM,
    auto=st.booleans(),
    keeps_state=st.booleans(),
    elsewhere=_SELDOM,
    commits_last=_SELDOM,
    tuned=st.lists(st.sampled_from(sorted(TUNED)), max_size=3, unique=True).map(tuple),
)
writes = st.builds(
    Write,
    client=st.sampled_from(("w0", "w0", "w0", "w1", "p0")),
    topic=_TOPIC,
    keys=_KEYS,
    times=st.integers(1, 4),
    headers=st.booleans(),
    empty=st.sampled_from((False, False, False, True)),
)
consumes = st.builds(
    Consume,
    who=_MEMBER,
    count=st.sampled_from((2, 1, 0, 5, 10, 100)),
    timeout=st.sampled_from((1.0, 1.0, 0.3, 0.0)),
    copies=st.booleans(),
)
acts = st.builds(
    Act,
    who=_MEMBER.map(lambda member: f"c{member}"),
    verb=st.sampled_from((*OF_CONSUMERS, "commit", "commit", "store", "rewind")),
) | st.builds(
    Act, who=_MEMBER.map(lambda member: f"c{member}"), verb=st.sampled_from((*OF_BOTH, "send offsets"))
)
of_producers = st.builds(
    Act,
    who=st.sampled_from(("p0", "p0", "p0", "p1")),
    verb=st.sampled_from((*OF_PRODUCERS, "commit all", "commit all", "abort")),
) | st.builds(
    Act,
    who=st.sampled_from(("w0", "w1")),
    verb=st.sampled_from(("flush", "commit all", "abort", "poll", "end", "fail in producer")),
)
others = (
    st.builds(
        Subscribe,
        who=_MEMBER,
        topics=_SOURCES,
        keeps_state=st.booleans(),
        commits_last=st.booleans(),
        pattern=_SELDOM,
    )
    | st.builds(Seek, who=_MEMBER, back=st.integers(1, 8))
    | st.builds(Change, topic=_TOPIC, count=_COUNTS, wait=st.booleans())
    | st.builds(Delete, topic=_TOPIC, percent=st.sampled_from((30, 60, 100)))
)
foreign = st.builds(
    Foreign,
    topic=_TOPIC,
    count=st.integers(1, 6),
    start=st.integers(0, 4),
    ends=st.sampled_from(FOREIGN_ENDS),
) | st.builds(Grow, topic=_TOPIC, count=_COUNTS)


def _steps(*, restarts: bool) -> st.SearchStrategy[Step]:
    # A kind first: most of a program reads and writes.
    kinds: tuple[st.SearchStrategy[Step], ...] = (
        consumes,
        consumes,
        consumes,
        writes,
        acts,
        acts,
        of_producers,
        foreign,
        others | st.builds(Restart, server=st.sampled_from(SERVERS)) if restarts else others,
    )
    return st.integers(0, len(kinds) - 1).flatmap(kinds.__getitem__)


@st.composite
def programs(draw: st.DrawFn, most: int = MOST_STEPS, restarts: bool = False) -> Program:
    """A program that begins with something to read. ``restarts``: also of servers, of which there are two controllers."""
    group = draw(st.tuples(members, members, members))
    first = Write("w0", "a", ("k0", "k1", "k2"), draw(st.integers(4, 8)), draw(st.booleans()))
    # Long ones, which shrink to short ones.
    least = draw(st.sampled_from((1, most // 2, most // 2, most // 2)))
    steps = draw(st.lists(_steps(restarts=restarts), min_size=least, max_size=most))
    # Changes are refused while another tool writes.
    force = any(isinstance(one, Foreign) for one in steps)
    steps = [replace(one, force=force) if isinstance(one, Change) else one for one in steps]
    return Program(group, (first, Consume(0, 2, 1.0), *steps))
