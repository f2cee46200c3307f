"""What a client says about why, and how it tells that a request waits for a review."""

from __future__ import annotations

import json
import pickle

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.api.examples import EXAMPLES
from spark_ordered_kafka.errors import ErrorCode, ReviewPendingError, UnavailableError
from tests.client.playing import CREATE, TOPICS, UNKNOWN, Answer, played


def test_a_reason_goes_with_every_request_that_changes_something() -> None:
    with (
        played(UNKNOWN) as controller,
        ControllerClient(controller.url, reason="für den Abend & mehr") as client,
    ):
        for ask in (
            lambda: client.create_topic(CREATE),
            lambda: client.cancel_change("t"),
            lambda: client.alter_partition_counts(schemas.PartitionCountsRequest(topics=[]), wait=1),
            lambda: client.topics(),
        ):
            with pytest.raises(Exception, match="why"):
                ask()
    changing, reading = controller.paths[:-1], controller.paths[-1]
    assert all("reason=f%C3%BCr+den+Abend+%26+mehr" in path for path in changing)
    assert "wait=1" in changing[-1]
    assert reading == "/v1/topics"


def test_without_a_reason_none_is_sent() -> None:
    with played(TOPICS) as controller, ControllerClient(controller.url) as client:
        client.topics()
    assert controller.paths == ["/v1/topics"]


def test_a_request_that_waits_is_an_error_with_the_number_of_its_review() -> None:
    pending = Answer(202, json.dumps(EXAMPLES["ReviewView"]).encode())
    with played(pending) as controller, ControllerClient(controller.url) as client:
        with pytest.raises(ReviewPendingError, match=r"nothing was done yet.*review 12") as raised:
            client.create_topic(CREATE)
        # It is stored; sent again, it would be stored twice.
        assert len(controller.requests) == 1
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.review_id, error.code, error.retriable) == (12, ErrorCode.REVIEW_PENDING, False)


def test_a_202_of_something_else_is_not_taken_for_a_review() -> None:
    with (
        played(Answer(202, b"accepted")) as controller,
        ControllerClient(controller.url) as client,
        pytest.raises(UnavailableError, match="answered 202: accepted"),
    ):
        client.cancel_change("t")
