"""Draws programs of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tests.programs.operator_requests import Request
from tests.programs.operators import Turn
from tests.programs.steps import SERVERS, Restart

_OFTEN = (
    "alter",
    "alter",
    "alter",
    "write",
    "write",
    "read",
    "read",
    "cancel",
    "create",
    "delete",
    "release",
    "adopt",
)
_OTHERS = (
    "make",
    "grow",
    "erase",
    "configure",
    "trim",
    "move",
    "move",
    "abandon",
    "factor",
    "factor",
    "limit",
)
_BULK = ("alter", "create", "delete", "factor")
_CHECKED = ("alter", "create", "delete", "release", "adopt", "configure", "trim", "move", "factor")
_FORCED = ("alter", "adopt", "release", "configure", "trim", "move", "limit")


def _tidy(request: Request) -> Request:
    """Without what says nothing."""
    topics = request.topics if request.what in _BULK else request.topics[:1]
    return replace(
        request,
        # A limit of a broker is one for all of them.
        topics=(0, 1) if request.what == "limit" else topics,
        count=min(request.count, 3) if request.what == "factor" else request.count,
        dry=request.dry and request.what in _CHECKED,
        force=request.force and request.what in _FORCED,
    )


_topics = st.sampled_from(((0,), (0,), (0,), (1,), (0, 1), (1, 0)))
requests = st.builds(
    Request,
    who=st.integers(0, 1),
    what=st.sampled_from(_OFTEN + _OTHERS),
    topics=_topics,
    count=st.integers(1, 5),
    wait=st.booleans(),
    dry=st.sampled_from((False, False, False, False, True)),
    force=st.sampled_from((False, False, True)),
    brokers=st.permutations((1, 2, 3)).flatmap(lambda all_: st.integers(1, 3).map(lambda n: tuple(all_[:n]))),
).map(_tidy)


def _pair(first: Request, second: Request) -> Turn:
    # Which of two batches of one producer came first, nobody could tell; a consumer takes no two calls at once.
    apart = first.what == second.what in ("write", "read")
    return Turn((first, replace(second, who=1 - first.who) if apart else second))


_pairs = st.builds(_pair, requests, requests)
_SERVERS = (*SERVERS, "broker-2", "zookeeper-1")


def programs(*, restarts: bool = False, most: int = 12) -> st.SearchStrategy[list[Turn | Restart]]:
    """Programs that begin with two topics; ``restarts``: also such that restart servers."""
    turns: st.SearchStrategy[Turn | Restart] = requests.map(lambda one: Turn((one,))) | _pairs
    if restarts:
        turns = turns | turns | turns | st.sampled_from(_SERVERS).map(Restart)
    begin = Turn((Request(0, "create", (0, 1)),))
    return st.lists(turns, max_size=most).map(lambda rest: numbered([begin, *rest]))


def numbered(turns: Sequence[Turn | Restart]) -> list[Turn | Restart]:
    """The same, with a number for every batch that is written."""
    done: list[Turn | Restart] = []
    batch = 0
    for turn in turns:
        if isinstance(turn, Turn):
            numbers = range(batch, batch + len(turn.requests))
            batch += len(turn.requests)
            turn = Turn(tuple(replace(one, batch=at) for at, one in zip(numbers, turn.requests, strict=True)))
        done.append(turn)
    return done
