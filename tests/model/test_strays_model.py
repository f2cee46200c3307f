"""Nothing that lies in Kafka is hidden or deleted unread, whatever foreign producers, other tools and crashes do."""

from __future__ import annotations

import sys

import pytest

from tests.model.search import Exploration, Search
from tests.model.strays import RULES, Strays


def explore(asked: tuple[int, ...], most: int, *broken: str) -> Exploration:
    found = Search(Strays(asked, most, broken=frozenset(broken))).run()
    sys.stdout.write(f"{found}\n")
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ((3,), 3),
        ((3, 2), 3),
        pytest.param((4,), 4, marks=pytest.mark.long),
        pytest.param((3, 4), 4, marks=pytest.mark.long),
        pytest.param((4, 2), 4, marks=pytest.mark.long),
    ],
)
def test_all_that_is_written_is_read_and_refused_changes_create_nothing(
    asked: tuple[int, ...], most: int
) -> None:
    found = explore(asked, most)
    assert found.counterexample is None, str(found)
    assert found.states > 1000


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("look first", "refused for a producer that had been there before"),
        ("cover", "not everything can be finished any more"),
        ("delete what is covered", "records are deleted that no layout has covered"),
    ],
)
def test_breaking_a_rule_about_strays_is_found(broken: str, problem: str) -> None:
    found = explore((3,), 3, broken)
    assert found.counterexample is not None
    assert problem in found.counterexample.problem


def test_every_rule_about_strays_is_known() -> None:
    assert set(RULES) == {"look first", "cover", "delete what is covered"}
