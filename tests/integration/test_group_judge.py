"""The judge of :mod:`tests.integration.test_client_group`: what it lets pass, and what it does not."""

from __future__ import annotations

import pytest

from tests.integration.group_judge import Judge


@pytest.fixture
def judge() -> Judge:
    """Member a has read keys x and y from partition 0, and holds them."""
    judge = Judge()
    judge.enter("a", "told", [0])
    judge.enter("a", "processed", [(0, 0, "x", 0), (0, 1, "y", 0), (0, 3, "x", 1)])
    return judge


def test_a_key_is_handed_over_by_a_rebalance(judge: Judge) -> None:
    judge.enter("a", "gave up", [0])
    judge.enter("b", "told", [0])
    judge.enter("b", "processed", [(0, 4, "x", 2), (0, 5, "y", 1)])
    assert (judge.violations, judge.handed_over, judge.holding()) == ([], 2, {"b"})
    assert judge.report(5).violations == 0
    assert judge.report(6).lost == 1


def test_a_key_that_another_holds_is_not_to_be_read(judge: Judge) -> None:
    judge.enter("b", "told", [1])
    judge.enter("b", "processed", [(1, 0, "x", 2)])
    assert judge.violations == ["b reads x from 1 while a holds it from 0"]


def test_a_member_hands_keys_over_to_itself_too(judge: Judge) -> None:
    judge.enter("a", "told", [1])
    judge.enter("a", "processed", [(1, 0, "x", 2)])
    assert judge.violations == ["a reads x from 1 while a holds it from 0"]


def test_who_gets_a_key_is_told_after_it_was_given_up(judge: Judge) -> None:
    judge.enter("b", "told", [1])
    judge.enter("a", "gave up", [0])
    judge.enter("b", "processed", [(1, 0, "x", 2)])
    assert judge.violations == ["b reads x from 1 without being told that it came"]
    judge.enter("b", "told", [1])
    judge.enter("b", "processed", [(1, 1, "y", 1)])
    assert len(judge.violations) == 1


def test_a_key_may_stay_where_it_was(judge: Judge) -> None:
    judge.enter("a", "gave up", [0])
    judge.enter("a", "processed", [(0, 4, "x", 2)])
    assert (judge.violations, judge.handed_over) == ([], 0)


def test_a_death_releases_keys_and_explains_redelivery_from_the_committed_offset_on(judge: Judge) -> None:
    judge.gone("a", None, {0: 1})
    judge.enter("b", "told", [0])
    judge.enter("b", "processed", [(0, 1, "y", 0), (0, 3, "x", 1), (0, 4, "x", 2)])
    assert (judge.violations, judge.redelivered) == ([], 2)
    assert judge.report(4).violations == 0
    judge.enter("b", "processed", [(0, 3, "x", 1)])
    assert "again, which nobody's death explains" in judge.violations[0]


def test_redelivery_from_before_the_committed_offset_has_no_excuse(judge: Judge) -> None:
    judge.gone("a", None, {0: 1})
    judge.enter("b", "told", [0])
    judge.enter("b", "processed", [(0, 0, "x", 0)])
    assert "again, which nobody's death explains" in judge.violations[0]


def test_what_is_delivered_again_is_the_same(judge: Judge) -> None:
    judge.gone("a", None, {})
    judge.enter("b", "told", [0])
    judge.enter("b", "processed", [(0, 0, "x", 7)])
    assert judge.violations[0].endswith("which was ('x', 0) before")


def test_order_and_loss_are_the_shared_checkers(judge: Judge) -> None:
    judge.enter("a", "processed", [(0, 5, "x", 3), (0, 6, "x", 2), (0, 7, "y", 2)])
    report = judge.report()
    assert (report.out_of_order, report.lost) == (1, 1)
