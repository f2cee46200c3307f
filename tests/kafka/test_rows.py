"""Rows of requests: in pieces, and with errors that name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.leaders import CHUNK
from spark_ordered_kafka.kafka.requests import refusal
from spark_ordered_kafka.kafka.rows import answer_of, as_refusal, by_topic, chunks

PLACES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), unique=True)


@given(PLACES)
def test_every_place_is_under_its_topic_once_and_in_order(places: list[tuple[str, int]]) -> None:
    grouped = by_topic(places)
    assert all(grouped.values())
    assert sorted((topic, p) for topic, numbers in grouped.items() for p in numbers) == sorted(places)
    assert {t: [p for topic, p in places if topic == t] for t in grouped} == grouped


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_chunks_fit_into_a_request_and_lose_nothing(count: int) -> None:
    found = list(chunks(range(count)))
    assert [row for chunk in found for row in chunk] == list(range(count))
    assert all(1 <= len(chunk) <= CHUNK for chunk in found)
    assert len(found) == -(-count // CHUNK)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (57, None, "LOG_DIR_NOT_FOUND: move x: The user-specified log directory is not found"),
        (39, "broker 7 twice", "INVALID_REPLICA_ASSIGNMENT: move x: broker 7 twice"),
        (9, None, "REPLICA_NOT_AVAILABLE: move x: "),
        # Kafka's 80 is none of the API's codes, and its 88 is another error than the API's.
        (80, "not in sync", "UNKNOWN_SERVER_ERROR: move x: PREFERRED_LEADER_NOT_AVAILABLE: not in sync"),
        (88, "unstable", "UNKNOWN_SERVER_ERROR: move x: UNSTABLE_OFFSET_COMMIT: unstable"),
    ],
)
def test_a_refused_row_keeps_kafkas_code_or_name(code: int, message: str | None, expected: str) -> None:
    assert str(refusal(code, message, "move x")).startswith(expected)


def test_a_row_names_its_partition() -> None:
    assert answer_of(("a-b", 3), 39, "twice") == (39, "a-b-3: twice")
    assert answer_of(("a", 3), 85, None)[1] == "a-3: No partition reassignment is in progress."


def test_the_error_of_a_broker_is_that_of_its_rows() -> None:
    refused = RequestError(ErrorCode.BROKER_NOT_AVAILABLE, "away")
    assert as_refusal(refused) is refused
    late = as_refusal(UnavailableError("no answer"))
    assert (late.code, late.message, late.retriable) == (ErrorCode.REQUEST_TIMED_OUT, "no answer", True)
