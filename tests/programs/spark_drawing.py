"""What Spark programs hypothesis draws: every step makes sense wherever it stands, so that any of them can be left out."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.programs.spark_steps import (
    ELSEWHERE,
    IN_FUNCTION,
    OPTIONS,
    OUT,
    OUT2,
    PAUSING,
    RAISING,
    SINKS,
    Change,
    Delete,
    Drop,
    Job,
    Read,
    Run,
    SparkProgram,
    SparkStep,
    Tamper,
    Write,
)

MOST_STEPS = 8
_KEYS = st.lists(st.sampled_from(("k0", "k1", "k2", "k3", "k4", None)), min_size=2, max_size=6).map(tuple)
_TASKS = st.sampled_from(
    ("as read", "as read", "repartition 2", "repartition 3", "repartition 5", "coalesce 1", "adaptive")
)
_COUNTS = st.integers(2, 4)
_EVENTS = (*RAISING, *(event for event in PAUSING if event not in ELSEWHERE))

jobs = st.builds(
    Job,
    kind=st.sampled_from((*SINKS, *IN_FUNCTION)),
    named=st.sampled_from((True, True, False)),
    headers=st.booleans(),
    reads=st.sampled_from(("one", "one", "two", "pattern")),
)
tampering = st.builds(
    Tamper,
    what=st.sampled_from(
        (
            *("forget commit", "forget commit", "forget commit"),
            *("copy", "copy", "restore", "restore", "newest"),
            *("delete", "delete and keep writer", "rename writer"),
        )
    ),
)


@st.composite
def runs(draw: st.DrawFn, job: Job, tasks: tuple[str, ...], elsewhere: bool) -> Run:
    """A run with tasks in one of these ways, more often the first."""
    event = draw(st.sampled_from(("", "", *_EVENTS, *(ELSEWHERE if elsewhere else ()))))
    run = {
        "tasks": draw(st.sampled_from(tasks)),
        "limit": draw(st.sampled_from((None, 8, 20, 60))),
        "share": draw(st.sampled_from((None, 1, 10))),
        "fail": draw(st.sampled_from((True, True, False))),
        "shared": draw(st.sampled_from((False,) * 6 + (True,))),
        "more": draw(st.sampled_from(("",) * len(OPTIONS) + OPTIONS)),
        "unordered": draw(st.sampled_from((False,) * 7 + (True,))),
    }
    # A run that is to stop in the middle of a batch needs an end; "once" has one batch.
    triggers = ("availableNow", "availableNow", "once", "processingTime")
    run["trigger"] = draw(st.sampled_from(triggers)) if event not in PAUSING else "availableNow"
    if event:
        run["at"] = draw(st.integers(0, 2 if event == "function fails" else 12))
    if event == "topic changes":
        run |= {"topic": draw(st.sampled_from((*job.sources, OUT))), "count": draw(_COUNTS)}
    return Run(event=event, **run)


@st.composite
def spark_programs(draw: st.DrawFn, most: int = MOST_STEPS, elsewhere: bool = False) -> SparkProgram:
    """A program that begins with something to copy. ``elsewhere``: also with drivers of their own, which take long."""
    job, home, other = draw(jobs), draw(_TASKS), draw(_TASKS)
    one = runs(job, (home, home, home, other), elsewhere)
    sources = st.sampled_from(job.sources)
    writes = st.builds(Write, keys=_KEYS, times=st.integers(1, 12), topic=sources)
    changes = st.builds(Change, topic=st.sampled_from((*job.sources, OUT, OUT2)), count=_COUNTS)
    others: st.SearchStrategy[SparkStep] = (
        st.builds(Delete, percent=st.sampled_from((30, 60, 100)), topic=sources)
        | st.builds(Read, topic=st.sampled_from((*job.sources, OUT)))
        | tampering
        | tampering
    )
    if len(job.sources) > 1:
        others |= st.builds(Drop)
    # A kind first: most of a program runs the query over something new.
    kinds: tuple[st.SearchStrategy[SparkStep], ...] = (one, one, one, writes, writes, changes, others, others)
    first = Write(("k0", "k1", "k2", "k3", "k4"), draw(st.integers(2, 8)))
    least = draw(st.sampled_from((1, most // 2, most // 2)))
    steps = draw(
        st.lists(st.integers(0, len(kinds) - 1).flatmap(kinds.__getitem__), min_size=least, max_size=most)
    )
    return SparkProgram(job, (first, draw(one), *steps))
