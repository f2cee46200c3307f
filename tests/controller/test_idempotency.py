"""Ids of requests that come twice."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_ordered_kafka.controller.topics.idempotency import has_key, keyed, new_id, repeatable_id
from spark_ordered_kafka.errors import RequestError


def test_without_a_key_every_id_is_new() -> None:
    assert (has_key(), repeatable_id("t", 2)) == (False, None)
    assert new_id("t", 2) != new_id("t", 2)


def test_the_same_request_with_the_same_key_has_the_same_id() -> None:
    with keyed("k"):
        first = new_id("t", 2)
        assert has_key()
        assert (new_id("t", 2), repeatable_id("t", 2)) == (first, first)
        others = {new_id("t", 3), new_id("u", 2), new_id("t", 2, None), new_id("t2"), first}
        assert len(others) == 5
    with keyed("l"):
        assert new_id("t", 2) != first
    with keyed("k"):
        assert new_id("t", 2) == first
    assert not has_key()


def test_a_topic_that_is_no_text_has_an_id() -> None:
    with keyed("k"):
        assert new_id("\ud800") != new_id("\ud801")


def test_the_key_goes_with_the_context() -> None:
    with keyed("k"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(contextvars.copy_context().run, has_key).result() is True
        assert pool.submit(has_key).result() is False


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "k" * 129, "k\n"])
def test_wrong_keys(key: str) -> None:
    with pytest.raises(RequestError, match="Idempotency-Key has the value"), keyed(key):
        pass
    assert not has_key()
