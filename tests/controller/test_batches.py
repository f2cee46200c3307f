"""Requests that name several topics."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.topics.batches import MAX_TOPICS, check_named
from spark_ordered_kafka.errors import RequestError


def test_topics_are_named_once() -> None:
    assert list(check_named(["a", "b", "a"])) == ["a"]


@pytest.mark.parametrize("topics", [[], ["t"] * (MAX_TOPICS + 1), [f"t{n}" for n in range(MAX_TOPICS + 1)]])
def test_there_are_some_and_not_too_many(topics: list[str]) -> None:
    with pytest.raises(RequestError, match=r"topics (is empty|names 10001)"):
        check_named(topics)
