"""What a review shows, what the audit log has and what is done are the same, on real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import AuthenticationSettings, ControllerSettings, TlsSettings
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.inside import session_of
from tests.integration.controllers import InProcess, exists, in_process
from tests.integration.keepers import with_sasl
from tests.integration.reassigning import Judge
from tests.integration.test_reviews import ask, decide, request_creation, settings, shown
from tests.servers import TIMEOUT, await_true, unique_name

JSON = {"content-type": "application/json"}
# Further ways to write the number 1, which a parser may take for it.
NOT_CANONICAL = ["01", " 1", "1 ", "+1", "0_1", "1.0", "\u0661", "-0", "\uff11", ""]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("done")


@pytest.fixture(scope="module")
def reviewed(kafka_cluster: LocalCluster, directory: Path) -> Iterator[InProcess]:
    with in_process(kafka_cluster, **settings(directory)) as running:
        yield running


def sent(controller: InProcess, method: str, path: str, body: str, **more: Any) -> httpx2.Response:
    return ask(controller, "alice", method, path, content=body.encode(), headers=JSON, **more)


def audited(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]


def refused(answer: httpx2.Response, told: str) -> None:
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST"), answer.text
    assert told in answer.json()["error_message"], answer.text


# -- bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/topics", '{"topic": "TOPIC", "partitions": 1, "partitions": 2}'),
        ("POST", "/v1/topics", '{"topic": "TOPIC", "assignments": {"0": [1], "0": [2]}}'),
        ("POST", "/v1/topics", '{"topics": [{"topic": "a"}, {"topic": "TOPIC", "to\\u0070ic": "b"}]}'),
        ("POST", "/v1/topics", '{"topic": "TOPIC", "validate_only": false, "validate_only": true}'),
        ("POST", "/v1/topics", '{"topic": "TOPIC", "configs": {"retention.ms": "1", "retention.ms": "2"}}'),
        ("POST", "/v1/topic-deletions", '{"topics": ["TOPIC"], "topics": ["other"]}'),
        (
            "POST",
            "/v1/reassignments",
            '{"partitions": [{"topic": "TOPIC", "partition": 0, "replicas": [1], "replicas": [2]}]}',
        ),
        ("PATCH", "/v1/topics/TOPIC", '{"ordered_delivery": true, "ordered_delivery": false}'),
        ("PUT", "/v1/brokers/1/guard-rails", '{"max_partitions": 1, "max_partitions": 2}'),
        # Of requests that change nothing, too: what was verified would not be what was asked for.
        (
            "POST",
            "/v1/reassignments/verify",
            '{"partitions": [{"topic": "TOPIC", "partition": 0, "partition": 1, "replicas": [1]}]}',
        ),
    ],
)
def test_a_name_that_is_there_twice_is_refused(
    reviewed: InProcess, kafka_cluster: LocalCluster, method: str, path: str, body: str
) -> None:
    topic = unique_name("twice")
    answer = sent(reviewed, method, path.replace("TOPIC", topic), body.replace("TOPIC", topic))
    refused(answer, "twice in one object")
    assert not exists(kafka_cluster, topic)


@pytest.mark.parametrize("number", NOT_CANONICAL)
def test_one_partition_cannot_be_written_in_two_ways(
    reviewed: InProcess, kafka_cluster: LocalCluster, number: str
) -> None:
    topic = unique_name("twoways")
    assignments = {"0": [1], "1": [1], number: [1]}
    for path, body in (
        ("/v1/topics", {"topic": topic, "assignments": assignments}),
        ("/v1/topics", {"topics": [{"topic": topic, "assignments": assignments}]}),
        (
            "/v1/partition-counts",
            {"topics": [{"topic": topic, "partition_count": 3, "assignments": assignments}]},
        ),
        ("/v1/replication-factors", {"topics": [{"topic": topic, "assignments": assignments}]}),
    ):
        refused(sent(reviewed, "POST", path, json.dumps(body)), f"assignments.{number}")
    assert not exists(kafka_cluster, topic)


# -- paths and queries --------------------------------------------------------------------------------------------


def reassignment(store: ReassignmentStore) -> int:
    """One of a topic that Kafka does not have."""
    move = Move(topic="none", partition=0, before=(1,), after=(2,))
    return store.create(
        lambda number: RequestRecord(request_id=number, created_at=0.0, principal="User:test"), [move]
    ).request_id


@pytest.mark.parametrize("latest", ["latest", "%6Catest", "%6c%61%74%65%73%74", "lates%74"])
def test_the_latest_reassignment_is_that_of_the_asking_however_it_is_written(
    reviewed: InProcess, directory: Path, latest: str
) -> None:
    store = ReassignmentStore(session_of(reviewed.service))
    # It would end what cannot be carried out, at a look of its own.
    reviewed.service.reassigner.stop(TIMEOUT)
    made = [reassignment(store)]
    try:
        asked = sent(reviewed, "PATCH", f"/v1/reassignments/{latest}", '{"throttle": 7}')
        assert asked.status_code == 202, asked.text
        made.append(reassignment(store))
        review_id = asked.json()["review_id"]
        assert shown(reviewed, review_id)["path"] == f"/v1/reassignments/{made[0]}"
        done = decide(reviewed, "bob", review_id)
        assert done.json()["answer"]["request_id"] == made[0], done.text
        throttles = [read[0].throttle for number in made if (read := store.read(number)) is not None]
        assert throttles == [7, None]
        paths = [line["path"] for line in audited(directory) if line.get("review_id") == review_id]
        assert set(paths) == {f"/v1/reassignments/{made[0]}"}
    finally:
        for number in made:
            store.delete(number)
        reviewed.service.reassigner.resume_all()


def test_where_there_is_no_latest_reassignment_nothing_waits_for_a_review(reviewed: InProcess) -> None:
    answer = sent(reviewed, "PATCH", "/v1/reassignments/latest", '{"throttle": 7}')
    assert answer.status_code in (400, 404), answer.text
    answer = ask(reviewed, "victor", "PATCH", "/v1/reassignments/%6Catest", json={"throttle": 7})
    assert (answer.status_code, answer.json()["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_names_in_paths_are_kept_as_they_are_read(reviewed: InProcess, directory: Path) -> None:
    topic = unique_name("encoded")
    decide(reviewed, "bob", request_creation(reviewed, topic))
    written = "".join(f"%{ord(character):02X}" for character in topic)
    asked = ask(reviewed, "alice", "DELETE", f"/v1/topics/{written}")
    assert asked.status_code == 202, asked.text
    assert shown(reviewed, asked.json()["review_id"])["path"] == f"/v1/topics/{topic}"
    assert ask(reviewed, "alice", "DELETE", f"/v1/topics/{topic}%2Fchange").status_code in (400, 404)
    assert {
        line["path"]
        for line in audited(directory)
        if line.get("method") == "DELETE" and topic in line["topics"]
    } == {
        f"/v1/topics/{topic}",
        f"/v1/topics/{topic}/change",
    }


@pytest.mark.parametrize("number", ["07", "+7", "7_0", " 7", "%207", "%2B7", "7.0", "%D9%A7"])
def test_numbers_in_paths_are_written_in_one_way(reviewed: InProcess, number: str) -> None:
    refused(ask(reviewed, "bob", "POST", f"/v1/reviews/{number}/approve"), "review_id has the value")
    answer = sent(reviewed, "PUT", f"/v1/brokers/{number}/guard-rails", '{"max_partitions": 5}')
    refused(answer, "broker has the value")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("validate_only=true&validate_only=false", "'validate_only' is there twice"),
        ("validate_only=false&validate%5Fonly=true", "'validate_only' is there twice"),
        ("validate_onyl=true", "'validate_onyl' does not exist here"),
        ("reason=a&reason=b", "'reason' is there twice"),
        ("force=true", "this request takes reason, timeout_ms, validate_only"),
    ],
)
def test_a_query_says_one_thing(
    reviewed: InProcess, kafka_cluster: LocalCluster, query: str, told: str
) -> None:
    topic = unique_name("asked")
    decide(reviewed, "bob", request_creation(reviewed, topic))
    refused(ask(reviewed, "alice", "DELETE", f"/v1/topics/{topic}?{query}"), told)
    assert exists(kafka_cluster, topic)
    # A check that another route takes in its body: as a query it would be a deed.
    body = json.dumps({"topics": [topic]})
    refused(sent(reviewed, "POST", "/v1/topic-deletions?validate_only=true", body), "does not exist here")
    assert exists(kafka_cluster, topic)


# -- between the asking and the approval --------------------------------------------------------------------------


def carried_out(controller: InProcess, asked: httpx2.Response) -> dict[str, Any]:
    """What became of a request of alice that bob has approved."""
    assert asked.status_code == 202, asked.text
    done = decide(controller, "bob", asked.json()["review_id"])
    assert done.status_code == 200, done.text
    found: dict[str, Any] = done.json()
    return found


def counts(topic: str, count: int) -> str:
    return json.dumps({"topics": [{"topic": topic, "partition_count": count}]})


def expand(controller: InProcess, topic: str, count: int) -> None:
    carried_out(controller, sent(controller, "POST", "/v1/partition-counts", counts(topic, count)))

    def ended() -> bool:
        change = ask(controller, "bob", "GET", f"/v1/topics/{topic}/change").json()
        return change["change"] is None and change["last_change"] is not None

    await_true(ended, "the expansion has ended")


def is_outdated(controller: InProcess, asked: httpx2.Response, told: str) -> None:
    review_id = asked.json()["review_id"]
    refused(decide(controller, "bob", review_id), told)
    assert shown(controller, review_id)["status"] == "pending"
    assert decide(controller, "bob", review_id, "discard").status_code == 200


def test_another_topic_of_the_same_name_is_not_what_was_meant(
    reviewed: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = unique_name("anew")
    decide(reviewed, "bob", request_creation(reviewed, topic))
    delete = ask(reviewed, "alice", "DELETE", f"/v1/topics/{topic}")
    several = sent(reviewed, "POST", "/v1/topic-deletions", json.dumps({"topics": [topic]}))
    config = sent(reviewed, "PATCH", f"/v1/topics/{topic}", '{"configs": {"retention.ms": "1000"}}')
    carried_out(reviewed, ask(reviewed, "carol", "DELETE", f"/v1/topics/{topic}"))
    decide(reviewed, "bob", request_creation(reviewed, topic))
    for asked in (delete, several, config):
        is_outdated(reviewed, asked, "was made or adopted anew")
    assert exists(kafka_cluster, topic)


def test_a_count_that_has_changed_since_is_not_what_was_looked_at(reviewed: InProcess) -> None:
    topic = unique_name("counted")
    decide(reviewed, "bob", request_creation(reviewed, topic))  # with 2 partitions
    grow = sent(reviewed, "POST", "/v1/partition-counts", counts(topic, 3))
    rest = sent(reviewed, "PATCH", f"/v1/topics/{topic}", '{"configs": {"retention.ms": "60000"}}')
    expand(reviewed, topic, 4)
    is_outdated(reviewed, grow, "changed, after this was asked for")
    # What says nothing about partitions is what it was.
    assert carried_out(reviewed, rest)["status"] == "done"


def test_a_topic_that_was_adopted_anew_is_not_what_was_looked_at(reviewed: InProcess) -> None:
    topic = unique_name("adopted")
    path = f"/v1/topics/{topic}"
    decide(reviewed, "bob", request_creation(reviewed, topic))
    grow = sent(reviewed, "POST", "/v1/partition-counts", counts(topic, 3))
    release, asked = (ask(reviewed, who, "POST", f"{path}/release", json={}) for who in ("alice", "carol"))
    carried_out(reviewed, asked)
    adopted = sent(reviewed, "POST", f"{path}/adopt", json.dumps({"hash": "murmur3"}))
    carried_out(reviewed, adopted)
    # Its id and its layout epoch are what they were.
    for one in (grow, release):
        is_outdated(reviewed, one, "was made or adopted anew")
    assert ask(reviewed, "bob", "GET", path).json()["undeleted_partition_count"] == 2


def test_replicas_that_have_moved_since_are_not_what_was_looked_at(reviewed: InProcess) -> None:
    topic = unique_name("moved")
    decide(reviewed, "bob", request_creation(reviewed, topic))
    factor = json.dumps({"topics": [{"topic": topic, "replication_factor": 1}]})
    asked = sent(reviewed, "POST", "/v1/replication-factors", factor)
    expand(reviewed, topic, 3)
    is_outdated(reviewed, asked, "its partitions or replicas were changed")


@pytest.mark.long
def test_a_rollback_of_replicas_that_have_moved_since_is_not_what_was_looked_at(
    three_brokers: LocalCluster, judge: Judge, tmp_path: Path
) -> None:
    topic = judge.create([1], [1])

    def moved(controller: InProcess, replicas: int) -> int:
        rows = [{"topic": topic, "partition": 0, "replicas": [replicas]}]
        asked = sent(controller, "POST", "/v1/reassignments", json.dumps({"partitions": rows}))
        number: int = carried_out(controller, asked)["answer"]["request_id"]
        path = f"/v1/reassignments/{number}"
        await_true(lambda: ask(controller, "bob", "GET", path).json()["complete"], "the replicas have moved")
        judge.await_replicas(topic, [(replicas,), (1,)])
        return number

    with in_process(three_brokers, **settings(tmp_path)) as controller:
        first = moved(controller, 2)
        asked = sent(controller, "POST", "/v1/reassignments", json.dumps({"rollback": first}))
        moved(controller, 3)
        is_outdated(controller, asked, "its partitions or replicas were changed")
        judge.await_replicas(topic, [(3,), (1,)])
        assert judge.ongoing(topic) == {}
        # Asked for anew, it is what it says.
        carried_out(
            controller, sent(controller, "POST", "/v1/reassignments", json.dumps({"rollback": first}))
        )
        judge.await_replicas(topic, [(1,), (1,)])
        for unknown in (10**9, -1, 2**31, 10**400, True, None):
            answer = sent(controller, "POST", "/v1/reassignments", json.dumps({"rollback": unknown}))
            refused(answer, "rollback")


def test_a_topic_that_came_meanwhile_was_not_looked_at(
    reviewed: InProcess, kafka_cluster: LocalCluster
) -> None:
    there, later = unique_name("there"), unique_name("later")
    decide(reviewed, "bob", request_creation(reviewed, there))
    asked = sent(reviewed, "POST", "/v1/topic-deletions", json.dumps({"topics": [there, later]}))
    decide(reviewed, "bob", request_creation(reviewed, later))
    is_outdated(reviewed, asked, "did not exist when this was asked for")
    assert exists(kafka_cluster, later)


def test_a_request_that_comes_again_waits_once_and_is_done_under_its_key(reviewed: InProcess) -> None:
    topic = unique_name("again")
    body = {"topic": topic, "partitions": 2}

    def create(who: str, key: str, **fields: Any) -> int:
        headers = {"Idempotency-Key": key}
        answer = ask(reviewed, who, "POST", "/v1/topics", json={**body, **fields}, headers=headers)
        assert answer.status_code == 202, answer.text
        number: int = answer.json()["review_id"]
        return number

    first = create("alice", "k")
    others = {create("alice", "other"), create("carol", "k"), create("alice", "k", partitions=3)}
    assert create("alice", "k") == first
    assert len(others | {first}) == 4
    assert decide(reviewed, "bob", first).json()["answer_status"] == 201
    # Known by its key also when it comes once more after it was done.
    assert create("alice", "k") == first
    refusal = ask(
        reviewed, "alice", "POST", "/v1/topics", json=body, headers={"Idempotency-Key": "ü".encode()}
    )
    refused(refusal, "Idempotency-Key")
    for review_id in others:
        decide(reviewed, "bob", review_id, "discard")


def test_one_person_under_two_spellings_cannot_approve_herself(reviewed: InProcess) -> None:
    review_id = request_creation(reviewed, unique_name("spelt"))
    reviews = reviewed.service.reviews
    record, _ = reviews.get(review_id)
    for principal in ("User:ALICE", "User:alice ", "User:\uff41lice"):
        with pytest.raises(RequestError, match="somebody else must approve it"):
            reviews.check_approvable(review_id, record, principal)
    reviews.check_approvable(review_id, record, "User:alicia")
    decide(reviewed, "bob", review_id, "discard")


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_with_a_password_and_a_certificate_nobody_is_two_principals(
    secure_cluster: LocalCluster, client_auth: Any
) -> None:
    """A controller that takes both does not start where review is required: she could approve her own request."""
    secrets = secure_cluster.secrets
    settings = ControllerSettings(
        kafka=secure_cluster.kafka_properties(CONTROLLER),
        zookeeper=with_sasl(secure_cluster),
        url="https://in-process",
        tls=TlsSettings(
            str(secrets.certificate(CONTROLLER)),
            str(secrets.key(CONTROLLER)),
            ca_location=str(secrets.ca),
            client_auth=client_auth,
        ),
        authentication=AuthenticationSettings(required=True, kafka_mechanism="PLAIN"),
        review_required=True,
    )
    with pytest.raises(
        ConfigError, match=r"review\.required .*authentication\.kafka\.mechanism and ssl\.client\.auth"
    ):
        ControllerService(settings)
    one = replace(settings, authentication=AuthenticationSettings(required=True))
    service = ControllerService(one)
    service.start()
    try:
        await_true(lambda: service.active, "with certificates alone it leads")
    finally:
        service.stop()
