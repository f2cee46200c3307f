"""Logs truncated by a real unclean leader election, found through the leader epochs of positions and layout starts."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.client.layout_answers import Truncations
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.controller.topics import truncation
from spark_ordered_kafka.kafka import producers
from spark_ordered_kafka.kafka.values import LogEnd
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.integration.unclean import CONFIG, UncleanElection, write
from tests.servers import TIMEOUT, unique_name
from tests.streams import delete_records


def truncations(controller: InProcess, topic: str, *positions: tuple[int, int, int]) -> list[Any]:
    """``(partition, offset, leader epoch, end offset, layout epoch)`` of what is reported."""
    fields = ("partition", "offset", "leader_epoch")
    body = {"positions": [dict(zip(fields, position, strict=True)) for position in positions]}
    answer = controller.http.post(f"/v1/topics/{topic}/truncations", json=body)
    assert answer.status_code == 200, answer.text
    found = reader(Truncations)(answer.content)
    assert (found.topic, found.topic_id) == (topic, controller.topic(topic).topic_id)
    return [(t.partition, t.offset, t.leader_epoch, t.end_offset, t.layout_epoch) for t in found.truncations]


@pytest.mark.long
def test_log_truncated_below_a_boundary_is_found_also_after_it_has_grown_again(
    three_brokers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = three_brokers
    with in_process(brokers) as controller:
        topic = unique_name("truncated")
        assignments = {"0": [1, 2], "1": [3, 2], "2": [3, 1]}
        body = {"topic": topic, "assignments": assignments, "configs": CONFIG}
        assert controller.http.post("/v1/topics", json=body).status_code == 201
        for partition in range(3):
            write(brokers, topic, partition, 5)
        assert controller.alter(topic, 4).error == "NONE"
        assert truncations(controller, topic, (0, 5, 0), (1, 3, 0)) == []

        election = UncleanElection(brokers, topic, 0)
        election.stop_follower()
        write(brokers, topic, 0, 10)
        assert controller.alter(topic, 3).error == "NONE"
        assert controller.layout(topic).layouts[2].starts == [15, 5, 5, 0]
        assert truncations(controller, topic, (0, 15, 0)) == []
        assert election.stop_leader() == LogEnd(15, 0)
        with monkeypatch.context() as impatient:
            # Only here: where leaders answer, they may take long.
            impatient.setattr(truncation, "_TIMEOUT", 1.0)
            impatient.setattr(producers, "TIMEOUT", 1.0)
            check_leaderless(controller, brokers, topic)

        after = election.elect_follower()
        assert after.offset == 5
        assert after.leader_epoch > 0
        election.restore()
        # Layout epoch 1 starts at 5, which the log still has.
        lost = [(0, 9, 0, 5, None), (0, 15, 0, 5, 2)]
        positions = [(0, 9, 0), (0, 4, 0), (0, 9, -1), (0, 5, after.leader_epoch), (1, 5, 0)]
        assert truncations(controller, topic, *positions) == lost
        refused = controller.alter(topic, 5)
        assert (refused.error, refused.error_code) == ("LOG_TRUNCATED", 1004)
        assert "partition 0" in str(refused.error_message)
        assert "use force to change the topic all the same" in str(refused.error_message)
        assert controller.alter(topic, 5, force=True).error == "NONE"
        assert controller.layout(topic).layouts[3].starts[0] == 15

        write(brokers, topic, 0, 20)
        assert truncations(controller, topic, (0, 25, after.leader_epoch), *positions) == lost
        # What retention has removed is no truncation: a reader learns it from the log start.
        delete_records(brokers, topic, {0: 20})
        assert truncations(controller, topic, *positions) == []


@pytest.mark.long
def test_truncated_removed_partition_keeps_no_change_from_being_made_that_does_not_need_it(
    three_brokers: LocalCluster,
) -> None:
    """Neither while it has no leader, nor after it lost what its layout's start had counted."""
    with in_process(three_brokers) as controller:
        topic = unique_name("removed")
        body = {"topic": topic, "assignments": {"0": [3, 1]}, "configs": CONFIG}
        assert controller.http.post("/v1/topics", json=body).status_code == 201
        grown = {"topic": topic, "partition_count": 3, "assignments": {"1": [3, 2], "2": [1, 2]}}
        answer = controller.http.post(
            "/v1/partition-counts", json={"topics": [grown]}, params={"wait": TIMEOUT}
        )
        assert answer.json()["topics"][0]["error"] == "NONE"
        election = UncleanElection(three_brokers, topic, 2)
        election.stop_follower()
        write(three_brokers, topic, 2, 10)
        assert controller.alter(topic, 2).error == "NONE"
        assert controller.layout(topic).layouts[-1].starts == [0, 0, 10]
        election.stop_leader()
        assert controller.alter(topic, 1).error == "NONE"
        assert truncations(controller, topic, (0, 0, 0)) == []
        assert election.elect_follower().offset == 0
        election.restore()
        assert truncations(controller, topic) == [(2, 10, 0, 0, 2)]
        assert controller.alter(topic, 2).error == "NONE"
        refused = controller.alter(topic, 3)
        assert refused.error == "LOG_TRUNCATED"
        assert "partition 2" in str(refused.error_message)
        assert controller.alter(topic, 1).error == "NONE"
        assert controller.alter(topic, 3, force=True).error == "NONE"
        assert [one.starts[2] for one in controller.layout(topic).layouts[2:]] == [10] * 5


def check_leaderless(controller: InProcess, brokers: LocalCluster, topic: str) -> None:
    """Partition 0 has no leader: whatever depends on its log asks to be sent again, and names it."""
    answer = controller.http.post(f"/v1/topics/{topic}/truncations", json={})
    assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT")
    assert f"partition {topic}-0 has no leader" in answer.json()["error_message"]
    change = controller.alter(topic, 4)
    assert change.error == "REQUEST_TIMED_OUT"
    assert f"partition {topic}-0 has no leader" in str(change.error_message)
    with in_process(brokers) as other:
        answer = other.http.post(f"/v1/topics/{topic}/adopt", json={})
        assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT")
        assert "partition 0" in answer.json()["error_message"]
        assert "no leader" in answer.json()["error_message"]


@pytest.mark.parametrize(
    ("position", "status", "error", "words"),
    [
        ((2, 0, 0), 404, "UNKNOWN_TOPIC_OR_PARTITION", "positions.1.partition has the value 2"),
        ((-1, 0, 0), 404, "UNKNOWN_TOPIC_OR_PARTITION", "partitions 0 to 1"),
        ((0, -1, 0), 400, "INVALID_REQUEST", "positions.1.offset has the value -1"),
        ((0, 2**63, 0), 400, "INVALID_REQUEST", "positions.1.offset"),
        ((0, 0, -2), 400, "INVALID_REQUEST", "positions.1.leader_epoch has the value -2"),
        ((0, 0, 2**31), 400, "INVALID_REQUEST", "positions.1.leader_epoch"),
    ],
)
def test_wrong_positions_are_refused(
    controller: InProcess, position: tuple[int, int, int], status: int, error: str, words: str
) -> None:
    topic = controller.create(2)
    rows = [
        dict(zip(("partition", "offset", "leader_epoch"), row, strict=True)) for row in [(0, 0, 0), position]
    ]
    answer = controller.http.post(f"/v1/topics/{topic}/truncations", json={"positions": rows})
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert words in answer.json()["error_message"]


def test_nothing_is_lost_of_topics_that_nobody_truncated(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = controller.create(2)
    for count in (20, 3):
        for partition in (0, 1):
            write(kafka_cluster, topic, partition, 4)
        assert controller.alter(topic, count).error == "NONE"
    assert truncations(controller, topic) == []
    # An offset that the log has never had is one it does not have, and an epoch of the future is not known.
    assert truncations(controller, topic, (1, 9, 0), (1, 9, 7), (19, 1, 0)) == [
        (1, 9, 0, 8, None),
        (19, 1, 0, 0, None),
    ]
    missing = controller.http.post("/v1/topics/no-such-topic/truncations", json={})
    assert (missing.status_code, missing.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
