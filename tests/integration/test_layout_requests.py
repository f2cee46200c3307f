"""One request for the layouts of several topics: what is answered of each, and by controllers that do not know the request."""

from __future__ import annotations

import pytest

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.state.paths import layout_path, topic_path
from spark_ordered_kafka.controller.topics import queries
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, free_port, in_process, served, several
from tests.integration.driven import delete_topic

ROUTE = "/v1/layouts"


def asked(topics: list[str]) -> list[dict[str, str]]:
    return [{"topic": topic} for topic in topics]


def answered(client: ControllerClient, questions: list[tuple[str, int]]) -> list[object]:
    """Histories, and errors as code and message."""
    return [
        (one.code, one.message) if isinstance(one, RequestError) else one for one in client.layouts(questions)
    ]


def test_each_topic_has_its_own_result(kafka_cluster: LocalCluster) -> None:
    """One that nothing can be said of costs no other one its layouts."""
    with in_process(kafka_cluster) as controller:
        sound, empty, bare, lost, foreign, gone = (controller.create(1, prefix=prefix) for prefix in "abcdef")
        assert controller.alter(sound, 2).error == "NONE"
        delete_topic(kafka_cluster, gone)
        assert controller.http.post(f"/v1/topics/{foreign}/release", json={}).status_code == 200
        client = session_of(controller.service).client
        client.set(topic_path(empty), b"")
        with in_process(kafka_cluster, chroot=client.chroot.strip("/"), await_active=False) as other:
            # That has read none of them yet.
            client.set(layout_path(bare, 0), b"{}")
            client.delete(layout_path(lost, 0))
            rows = several(
                other, ROUTE, asked([sound, empty, bare, lost, foreign, "a/b", gone, "missing", sound])
            )
            histories = other.http.post(ROUTE, json={"topics": asked([sound, gone])}).json()["topics"]
    assert [error for _, error, _ in rows] == [
        "NONE",
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN_SERVER_ERROR",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_TOPIC_EXCEPTION",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NONE",
    ]
    assert "does not hold a TopicRecord" in rows[1][2]
    assert "does not hold a LayoutRecord" in rows[2][2]
    assert [[layout["epoch"] for layout in one["history"]["layouts"]] for one in histories] == [[0, 1], [0]]


@pytest.mark.long
def test_the_answer_is_that_of_each_topic_alone(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topics = [controller.create(count) for count in (1, 2, 3)]
    for count in (2, 4):
        assert controller.alter(topics[0], count).error == "NONE"
    port = free_port()
    with served(controller, port), ControllerClient(f"http://127.0.0.1:{port}") as client:
        questions = [(topic, epoch) for topic in topics for epoch in (0, 1, 3)] + [("missing", 0)]
        assert [type(one) for one in client.layouts(questions)] == [
            *[schemas.LayoutHistoryView] * 5,
            RequestError,
            *[schemas.LayoutHistoryView] * 2,
            RequestError,
            RequestError,
        ]
        alone = [one for question in questions for one in answered(client, [question])]
        assert answered(client, questions) == alone
        assert client.layouts([]) == []


@pytest.mark.long
def test_a_long_answer_comes_in_parts(controller: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [controller.create(2) for _ in range(4)]
    monkeypatch.setattr(queries, "_MOST_STARTS", 3)
    rows = several(controller, ROUTE, asked([*topics, "missing"]))
    assert [topic for topic, _, _ in rows] == topics[:2]
    port = free_port()
    with served(controller, port), ControllerClient(f"http://127.0.0.1:{port}") as client:
        found = client.layouts([(topic, 0) for topic in (*topics, "missing")])
    assert [one.topic for one in found[:4] if not isinstance(one, RequestError)] == topics
    assert isinstance(found[4], RequestError)


def test_a_controller_that_does_not_know_the_request(controller: InProcess) -> None:
    """Versions run side by side during an upgrade: of 0.1.0 each topic is asked for by itself."""
    topics = [controller.create(1) for _ in range(3)]
    port = free_port()
    with (
        served(controller, port, without=[ROUTE]),
        ControllerClient(f"http://127.0.0.1:{port}") as client,
    ):
        found = client.layouts([(topic, 0) for topic in (*topics, "missing")])
        assert [one.topic for one in found[:3] if not isinstance(one, RequestError)] == topics
        assert isinstance(found[3], RequestError)
        assert found[3].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.long
def test_names_that_cannot_be_sent(controller: InProcess) -> None:
    port = free_port()
    with (
        served(controller, port),
        ControllerClient(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ConfigError, match="must be text"),
    ):
        client.layouts([("\ud800", 0), ("t", 0)])
