"""Self-healing on real servers: brokers that die, directories that fail, leaders that sit on one broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    WebhookSettings,
)
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.values import PartitionDescription
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.integration.webhooks import Receiver
from tests.servers import TIMEOUT, await_true, unique_name

LONG = 3 * TIMEOUT
"""Seconds for what includes the death or the start of a broker."""
DEAD = 4
RULES = Rules(
    mode="act",
    interval=0.5,
    broker_away_after=2.0,
    log_dir_offline_after=1.0,
    uneven_after=1e9,
    disk_share=1.0,
    cooldown=2.0,
    throttle=None,
)
QUIET: dict[str, Any] = {"leader_difference": 1000.0, "disk_difference": 1.0}


@pytest.fixture(scope="module")
def four_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("four"), brokers=4, controllers=0) as cluster:
        yield cluster


@pytest.fixture
def admin(four_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(four_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


@contextmanager
def healing(cluster: LocalCluster, rules: Rules, **more: Any) -> Iterator[InProcess]:
    with in_process(cluster, healing=rules, request_timeout=5.0, **more) as running:
        yield running


def view(running: InProcess, headers: dict[str, str] | None = None) -> schemas.HealingView:
    answer = running.http.get("/v1/healing", headers=headers)
    assert answer.status_code == 200, answer.text
    return schemas.HealingView.model_validate_json(answer.content)


def until(
    running: InProcess,
    what: str,
    holds: Callable[[schemas.HealingView], Any],
    headers: dict[str, str] | None = None,
) -> schemas.HealingView:
    found: list[schemas.HealingView] = []

    def reached() -> bool:
        found.append(view(running, headers))
        return bool(holds(found[-1]))

    try:
        await_true(reached, what, LONG)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found[-1]!r}") from error
    return found[-1]


def await_proposals(
    running: InProcess, expected: dict[str, str], headers: dict[str, str] | None = None
) -> None:
    """Wait until Prometheus is told of these proposals, outcome by action, and of no others."""
    lines = [
        f'ordered_kafka_healing_proposals{{action="{action}",outcome="{outcome}"}} 1.0'
        for action, outcome in expected.items()
    ]

    def told() -> bool:
        text = running.http.get("/metrics", headers=headers).text
        return [
            one for one in text.splitlines() if one.startswith("ordered_kafka_healing_proposals")
        ] == lines

    await_true(told, f"Prometheus is told of {expected}", LONG)


def outcomes(found: schemas.HealingView, action: str) -> list[str]:
    return [one.outcome for one in reversed(found.history) if one.action == action]


def rows_of(admin: KafkaAdmin, topic: str) -> tuple[PartitionDescription, ...]:
    """The topic's partitions, once the broker that answers knows it."""
    found: list[tuple[PartitionDescription, ...]] = []

    def known() -> bool:
        described = admin.describe_topics([topic])
        found[:] = [described[topic].partitions] if topic in described else []
        return bool(found)

    await_true(known, f"{topic} is known")
    return found[0]


def replicas(admin: KafkaAdmin, topic: str) -> list[tuple[int, ...]]:
    return [row.replicas for row in rows_of(admin, topic)]


def leaders(admin: KafkaAdmin, topic: str) -> Counter[int]:
    return Counter(row.leader for row in rows_of(admin, topic))


def placed(admin: KafkaAdmin, *places: list[int]) -> str:
    topic = unique_name("healed")
    admin.create_topic(topic, dict(enumerate(places)), {})
    await_true(lambda: -1 not in leaders(admin, topic), "leaders")
    return topic


def test_a_finding_is_shown_everywhere_and_told_by_webhook(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hook-token\n")
    audit, port = tmp_path / "audit.log", free_port()
    rules = replace(RULES, mode="observe", disk_share=1e-6, uneven_after=0.0)
    with Receiver() as receiver:
        more = {
            "webhook": WebhookSettings(receiver.url, str(tmp_path / "token"), TIMEOUT),
            "audit_log_file": str(audit),
            "url": f"http://127.0.0.1:{port}",
        }
        with healing(kafka_cluster, rules, **more) as running, served(running, port):
            found = until(running, "the full volume is found", lambda one: one.findings)
            (finding,) = found.findings
            assert (finding.kind, finding.subject) == ("disk_full", "1")
            assert "no other broker has replicas on a smaller part" in finding.reason
            assert (found.proposals, found.history) == ([], [])
            (broker,) = found.brokers
            assert broker.log_dirs is not None
            assert all(one.online and one.total_bytes and one.free_bytes for one in broker.log_dirs)
            assert broker.hosted >= broker.leaders
            await_true(lambda: bool(receiver.documents), "it is sent again after the 503")
            # Counted once the receiver has answered, and at the end of a look at the cluster.
            wanted = {
                'ordered_kafka_healing_findings{kind="disk_full"} 1.0',
                'ordered_kafka_healing_findings{kind="broker_away"} 0.0',
                'ordered_kafka_webhook_documents_total{outcome="sent"} 1.0',
            }
            await_true(
                lambda: wanted <= set(running.http.get("/metrics").text.splitlines()), f"metrics {wanted}"
            )
            address = ["--controller", f"http://127.0.0.1:{port}"]
            shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["healing", "status", *address])
            assert shown.exit_code == 0, shown.output
            assert "mode observe; 0 of 6 requests in the last 24 hours" in shown.stdout
            assert "disk_full 1, since " in shown.stdout
            told = CliRunner().invoke(app, ["healing", "status", *address, "--output", "json"])
            assert json.loads(told.stdout)["findings"][0]["kind"] == "disk_full"
    (document,) = receiver.documents
    assert receiver.tokens == {"Bearer hook-token"}
    assert (document["version"], document["source"], document["event"]) == (1, "healing", "finding")
    assert document["controller"] == f"http://127.0.0.1:{port}"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    (told_of,) = (line for line in lines if line["event"] == "healing")
    assert told_of["about"] == "finding"
    # A later answer has another reason: other processes use the volume, too.
    of_finding = (document["kind"], document["subject"], document["reason"])
    assert of_finding == ("disk_full", "1", told_of["reason"])
    assert "no other broker has replicas on a smaller part" in document["reason"]
    assert "secret" not in repr(running.service.settings)


def test_elections_are_requests_of_the_api(controller: InProcess) -> None:
    topic = controller.create(2)
    rows = [{"topic": topic, "partition": p} for p in (0, 1)]
    answer = controller.http.post("/v1/leader-elections", json={"partitions": rows}).json()
    assert [row["error"] for row in answer["partitions"]] == ["NONE", "NONE"]
    assert controller.http.post("/v1/leader-elections", json={}).json() == {"partitions": []}
    wrong = [{"topic": topic, "partition": 2}, {"topic": "nowhere", "partition": 0}, rows[0]]
    answer = controller.http.post("/v1/leader-elections", json={"partitions": wrong}).json()
    assert [row["error"] for row in answer["partitions"]] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2 + ["NONE"]
    twice = controller.http.post("/v1/leader-elections", json={"partitions": [rows[0], rows[0]]})
    assert (twice.status_code, f"{topic}-0' twice" in twice.text) == (400, True)


@pytest.mark.long
def test_leaders_that_sit_on_one_broker_are_elected_back(
    four_brokers: LocalCluster, admin: KafkaAdmin
) -> None:
    topic = placed(admin, *[[1, 2, 3, 4]] * 16)
    rules = replace(RULES, disk_difference=1.0, uneven_after=0.5)
    with in_process(four_brokers) as plain:
        order = [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3]] * 4
        rows = [{"topic": topic, "partition": p, "replicas": one} for p, one in enumerate(order)]
        body = {"partitions": rows, "elect_leaders": False}
        answer = plain.http.post("/v1/reassignments", json=body).json()
        assert answer["request_id"] is not None, answer
        await_true(lambda: replicas(admin, topic) == [tuple(one) for one in order], "the order is changed")
        assert leaders(admin, topic) == {1: 16}
    with healing(four_brokers, replace(rules, mode="observe")) as running:
        proposed = until(running, "an election is proposed", lambda one: outcomes(one, "elect_leaders"))
        assert outcomes(proposed, "elect_leaders") == ["proposed"]
        assert "leaders by broker differ by " in proposed.findings[0].reason
        assert leaders(admin, topic) == {1: 16}, "observe changes nothing"
    with healing(four_brokers, rules) as running:
        until(running, "the finding has ended", lambda one: one.at is not None and not one.findings)
        # It ends at a smaller difference, and brokers hear of a new leader one after another.
        balanced = {1: 4, 2: 4, 3: 4, 4: 4}
        await_true(lambda: leaders(admin, topic) == balanced, f"leaders {balanced}", LONG)
    client = AdminClient({"bootstrap.servers": four_brokers.bootstrap_servers})
    client.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)


@pytest.mark.long
def test_replicas_of_a_dead_broker_are_moved_and_the_budget_holds_for_the_next_leader(
    four_brokers: LocalCluster, admin: KafkaAdmin, tmp_path: Path
) -> None:
    topic = placed(admin, *[[DEAD, 1], [2, DEAD], [1, 2]] * 2)
    everywhere = placed(admin, [1, 2, 3, DEAD])
    chroot, audit = unique_name("healing"), tmp_path / "audit.log"
    rules = replace(RULES, requests_per_day=1, **QUIET)
    with healing(four_brokers, replace(rules, mode="observe"), chroot=chroot) as running:
        until(running, "the cluster is seen", lambda one: len(one.brokers) == 4)
        four_brokers.kill(f"broker-{DEAD}")
        try:
            found = until(running, "a drain is proposed", lambda one: outcomes(one, "drain") == ["proposed"])
            assert [(one.kind, one.subject) for one in found.findings] == [("broker_away", str(DEAD))]
            (decision,) = found.history
            assert decision.partitions is not None
            assert decision.partitions >= 4
            await_proposals(running, {"drain": "proposed"})
            assert {DEAD} <= {broker for row in replicas(admin, topic) for broker in row}
        finally:
            four_brokers.start(f"broker-{DEAD}")
        until(running, "it is withdrawn", lambda one: outcomes(one, "drain")[-1] == "withdrawn")
        await_proposals(running, {})
    four_brokers.kill(f"broker-{DEAD}")
    try:
        with healing(four_brokers, rules, chroot=chroot, audit_log_file=str(audit)) as running:
            done = until(running, "the drain is done", lambda one: "done" in outcomes(one, "drain"))
            await_true(
                lambda: DEAD not in {broker for row in replicas(admin, topic) for broker in row},
                "every broker shows that the replicas have moved",
            )
            assert done.requests_in_last_day == 1
            requested = next(one for one in done.history if one.outcome == "requested")
            assert f"more replicas than there are brokers left: topics {everywhere}" in requested.reason
            until(
                running,
                "it has few replicas",
                lambda one: one.findings and "with 1 replica" in one.findings[0].reason,
            )
            second = placed(admin, [1, 2], [2, 3])
    finally:
        four_brokers.start(f"broker-{DEAD}")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    (asked,) = [line for line in lines if line["event"] == "requested"]
    assert (asked["principal"], asked["route"]) == ("User:healing", "/v1/reassignments")
    assert f"broker {DEAD} is away, with " in asked["reason"]
    # The next leader counts what this one has requested.
    with in_process(four_brokers) as plain:
        rows = [{"topic": second, "partition": p, "replicas": [1, DEAD]} for p in (0, 1)]
        assert plain.http.post("/v1/reassignments", json={"partitions": rows}).json()["request_id"]
        await_true(lambda: replicas(admin, second) == [(1, DEAD)] * 2, "replicas on the broker again", LONG)
    four_brokers.kill(f"broker-{DEAD}")
    try:
        with healing(four_brokers, rules, chroot=chroot) as running:
            held = until(
                running, "the budget is used up", lambda one: [p.held_by for p in one.proposals] == ["budget"]
            )
            assert held.requests_in_last_day == 1
            assert "requests.per.day = 1 were made" in held.proposals[0].reason
            assert replicas(admin, second) == [(1, DEAD)] * 2
    finally:
        four_brokers.start(f"broker-{DEAD}")


@pytest.mark.long
def test_a_broker_that_returns_withdraws_the_review(
    four_brokers: LocalCluster, admin: KafkaAdmin, tmp_path: Path
) -> None:
    placed(admin, [DEAD, 1], [1, DEAD])
    token = "alice-" + "t" * 40
    (tmp_path / "tokens").write_text(str(hashed(token, "User:alice")))
    (tmp_path / "roles.toml").write_text(
        "[[grants]]\nrole = 'admin'\nprincipals = ['User:alice', 'User:ANONYMOUS']\n"
        "[[grants]]\nrole = 'operator'\nprincipals = ['User:healing']\n"
    )
    more = {
        "authentication": AuthenticationSettings(required=True, tokens_file=str(tmp_path / "tokens")),
        "authorization": AuthorizationSettings(roles_file=str(tmp_path / "roles.toml")),
        "review_required": True,
    }
    headers = {"authorization": f"Bearer {token}"}
    with healing(four_brokers, replace(RULES, **QUIET), **more) as running:
        until(running, "the cluster is seen", lambda one: len(one.brokers) == 4, headers)
        four_brokers.kill(f"broker-{DEAD}")
        try:
            until(running, "it waits", lambda one: outcomes(one, "drain") == ["in_review"], headers)
            held = until(
                running, "under way", lambda one: [p.held_by for p in one.proposals] == ["under_way"], headers
            )
            assert "waits for a second principal" in held.proposals[0].reason
            await_proposals(running, {"drain": "in_review"}, headers)
        finally:
            four_brokers.start(f"broker-{DEAD}")
        until(running, "it is withdrawn", lambda one: outcomes(one, "drain")[-1] == "withdrawn", headers)
        (review,) = running.http.get("/v1/reviews", headers=headers).json()["reviews"]
        assert (review["status"], review["requested_by"]) == ("discarded", "User:healing")

        def pending() -> list[int]:
            rows = running.http.get("/v1/reviews", headers=headers).json()["reviews"]
            return [row["review_id"] for row in rows if row["status"] == "pending"]

        four_brokers.kill(f"broker-{DEAD}")
        try:
            await_true(lambda: bool(pending()), "another review is filed", LONG)
            (second,) = pending()
            running.http.post(f"/v1/reviews/{second}/discard", headers=headers)
            until(running, "it is refused", lambda one: outcomes(one, "drain")[-1] == "refused", headers)
            await_true(lambda: bool(pending()), "after the cool-down a third one is filed", LONG)
            (third,) = pending()
            done = running.http.post(f"/v1/reviews/{third}/approve", headers=headers).json()
            assert done["status"] == "done", done
            found = until(running, "it is done", lambda one: "done" in outcomes(one, "drain"), headers)
            assert outcomes(found, "drain").count("withdrawn") == 1
        finally:
            four_brokers.start(f"broker-{DEAD}")


@pytest.mark.long
def test_replicas_of_a_failed_directory_are_moved(four_brokers: LocalCluster, admin: KafkaAdmin) -> None:
    topic = placed(admin, *[[DEAD, 1]] * 20)
    (paths,) = [row["log_dirs"] for row in four_brokers.description()["brokers"] if row["id"] == DEAD]
    path = Path(paths[1])
    aside = path.with_name("aside")
    log_dirs = LogDirs(admin.requests, timeout=TIMEOUT)

    def lost() -> set[int]:
        (answer,) = log_dirs.describe([DEAD], {topic: range(20)}).values()
        assert isinstance(answer, list)
        return set(range(20)) - {one.partition for d in answer for one in d.replicas if d.online}

    await_true(lambda: not lost(), "replicas are there")
    path.rename(aside)
    path.touch()  # nothing can be made in it
    try:
        # It fails when the broker wants to make something in it.
        placed(admin, *[[DEAD, 1]] * 20)
        await_true(lambda: bool(lost()), "the directory is offline", LONG)
        gone = lost()
        assert len(gone) < 20
        with healing(four_brokers, replace(RULES, **QUIET)) as running:
            done = until(running, "all is moved", lambda one: "done" in outcomes(one, "replace_replicas"))
            assert [one.kind for one in done.findings] == ["log_dir_offline"]
            assert str(path) in done.findings[0].reason
            await_true(
                lambda: {p for p, row in enumerate(replicas(admin, topic)) if DEAD not in row} == gone,
                f"partitions {gone} alone have moved",
            )
            # The directory is still offline, but there is nothing to move any more.
            until(
                running,
                "no plan is left",
                lambda one: outcomes(one, "replace_replicas")[-1:] == ["nothing_to_do"],
            )
    finally:
        four_brokers.stop(f"broker-{DEAD}")
        path.unlink()
        aside.rename(path)
        four_brokers.start(f"broker-{DEAD}")
