"""Automatic partition counts on real servers, while records are written and read."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.autoscale.configuration import AutoscaleSettings
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.autoscale.sampling import Sampler
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.controller.state.autoscale import AUTOSCALE
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leader_logs import LeaderLog
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.integration.members import Member, Room, exact
from tests.servers import TIMEOUT, await_true, processes_of, unique_name
from tests.streams import NumberedWriter

RULES = Rules(
    mode="act",
    target_bytes=None,
    # A busy machine writes a hundred records a second, a quiet one thousands.
    target_records=40.0,
    grow_after=0.6,
    shrink_after=1.5,
    cooldown=1.0,
    maximum=3,
)


PATIENCE = 2 * TIMEOUT


@dataclass(frozen=True)
class Served:
    """Addresses, as tests' writers and members take them from a cluster."""

    bootstrap_servers: str
    controller_url: str


@contextmanager
def controller(
    cluster: LocalCluster, rules: Rules, chroot: str = "", **more: Any
) -> Iterator[tuple[InProcess, LocalCluster]]:
    """A controller with automatic partition counts, and its addresses."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # Long enough for some transaction in each interval: one without any begins the times anew.
    settings = AutoscaleSettings(interval=1.0, rules=rules)
    with (
        in_process(cluster, chroot=chroot, url=url, autoscale=settings, **more) as running,
        served(running, port),
    ):
        yield running, cast(LocalCluster, Served(cluster.bootstrap_servers, url))


def shown(servers: LocalCluster, topic: str) -> schemas.AutoscaleTopic:
    with ControllerClient(servers.controller_url) as client:
        return next(row for row in client.autoscale().topics if row.topic == topic)


def until(
    servers: LocalCluster, topic: str, what: str, member: Member | None = None, **wanted: Any
) -> schemas.AutoscaleTopic:
    """The topic once its newest decision, or the topic itself, has what is ``wanted``; ``member`` reads meanwhile."""
    found: list[schemas.AutoscaleTopic] = []

    def reached() -> bool:
        if member is not None:
            member.read()
        found.append(shown(servers, topic))
        have = found[-1].model_dump() | (found[-1].model_dump()["decision"] or {})
        return all(have.get(name) == value for name, value in wanted.items())

    await_true(reached, what, PATIENCE)
    return found[-1]


def is_followed(servers: LocalCluster, topic: str, member: Member) -> bool:
    """Whether the newest observation has the member's group, with what it reads."""
    member.read()
    seen = shown(servers, topic).observation
    groups = [] if seen is None else seen.groups
    return [one.members for one in groups] == [1] and sum(groups[0].read_per_second) > 0


@pytest.mark.long
def test_a_topic_follows_its_load_and_every_key_stays_in_order(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    audit, chroot, group = tmp_path / "audit.log", unique_name("autoscale"), unique_name("group")
    observing = replace(RULES, mode="observe")
    with controller(kafka_cluster, observing, chroot) as (running, servers):
        topic = running.create(1)
        writer = NumberedWriter(servers, topic)
        printed: list[str] = []

        def is_printed() -> bool:
            """The decision is another one as soon as the load pauses."""
            status = CliRunner(env={"COLUMNS": "80"}).invoke(
                app, ["autoscale", "status", "--controller", servers.controller_url, "--topic", topic]
            )
            printed.append(status.output)
            return (
                re.search(rf"{topic} +observe +1 +[23] +\d+ % +grow: proposed", status.stdout) is not None
                and f"{topic}: partition 0 takes " in status.stdout
            )

        def is_proposed() -> bool:
            found.append(shown(servers, topic))
            decision, observation = found[-1].decision, found[-1].observation
            return (
                decision is not None
                and (decision.outcome, decision.action) == ("proposed", "grow")
                and observation is not None
                and observation.peak > RULES.grow_above
            )

        found: list[schemas.AutoscaleTopic] = []
        with writer.under_load():
            await_true(is_proposed, "growth is proposed", PATIENCE)
            await_true(is_printed, "growth is printed as proposed", PATIENCE)
        proposed = found[-1]
        assert (proposed.mode, proposed.count, proposed.changes) == ("observe", 1, [])
        assert "of the target" in proposed.history[0].reason
        metrics = running.http.get("/metrics").text
        assert f'ordered_kafka_autoscale_partitions{{mode="observe",topic="{topic}"}} 1.0' in metrics
        assert f'decisions_total{{action="grow",outcome="proposed",topic="{topic}"}}' in metrics

    with (
        controller(kafka_cluster, replace(RULES, groups=(group,)), chroot, audit_log_file=str(audit)) as (
            running,
            servers,
        ),
        ExitStack() as stack,
    ):
        room = Room(servers, stack)
        room.group = group
        member = room.member(topic)
        writer = NumberedWriter(
            servers, topic, first=writer.first + writer.written // writer.keys, written=writer.written
        )
        with writer.under_load():
            until(servers, topic, "the topic grows", member, count=3)
            await_true(
                lambda: is_followed(servers, topic, member), "the group's lag and rate are seen", PATIENCE
            )
        ended = until(servers, topic, "the topic shrinks again", member, count=1)
        await_true(
            lambda: bool(member.read(count=5_000) or True) and len(member.messages) >= writer.written,
            "all is read",
            2 * PATIENCE,
        )
        exact(member.messages, writer.written)
    assert ended.changes[-1].source == 1
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    requests = [
        line for line in lines if line["event"] == "requested" and line.get("principal") == "User:autoscale"
    ]
    assert len(requests) == len(ended.changes)
    assert all("of the target" in line["reason"] for line in requests)
    decided = [line for line in lines if line["event"] == "autoscale"]
    assert {"requested"} <= {line["outcome"] for line in decided}


def test_the_share_of_a_key_is_of_all_records(kafka_cluster: LocalCluster) -> None:
    topic, servers = unique_name("topic"), kafka_cluster.bootstrap_servers
    with closing(KafkaAdmin(servers, timeout=TIMEOUT)) as admin:
        sampler = Sampler(admin, TIMEOUT, time.monotonic)
        creator = AdminClient({"bootstrap.servers": servers})
        creator.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT)
        producer = Producer({"bootstrap.servers": servers})
        for number in range(100):
            producer.produce(topic, b"v", key=b"k" if number % 4 == 0 else None)
        assert producer.flush(TIMEOUT) == 0
        found = sampler.hot_key(topic, 0, LeaderLog(0, 100, None))
        assert found is not None
        assert found.share == 0.25
        assert sampler.hot_key(topic, 0, LeaderLog(1, 4, None)) is None


@pytest.mark.long
def test_one_hot_key_is_seen_and_not_split(kafka_cluster: LocalCluster) -> None:
    with controller(kafka_cluster, replace(RULES, target_records=20.0)) as (running, servers):
        topic = running.create(1)
        with NumberedWriter(servers, topic, keys=1, step=100).under_load():
            held = until(servers, topic, "the key is seen", held_by="unsplittable_key")
    assert (held.count, held.changes) == (1, [])
    assert held.decision is not None
    digest = hashlib.sha256(b"k0").hexdigest()
    assert (
        f"100 % of the newest records of partition 0 have one key (SHA-256 {digest[:12]}…)"
        in held.decision.reason
    )


@pytest.mark.long
def test_the_next_leader_keeps_to_the_budget(kafka_cluster: LocalCluster) -> None:
    rules, chroot = replace(RULES, changes_per_day=1), unique_name("autoscale")
    with controller(kafka_cluster, rules, chroot) as (running, servers):
        topic = running.create(1)
        writer = NumberedWriter(servers, topic)
        with writer.under_load():
            until(servers, topic, "the topic grows", count=3)
    with controller(kafka_cluster, rules, chroot) as (_, servers):
        held = until(servers, topic, "the shrink is held back", held_by="budget")
    assert (held.count, len(held.changes)) == (3, 1)
    assert held.decision is not None
    assert "changes.per.day = 1 were requested in the last 24 hours" in held.decision.reason


@pytest.mark.long
def test_a_change_waits_for_a_review_and_is_not_filed_twice(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    token = "alice-" + "t" * 40
    (tmp_path / "tokens").write_text(str(hashed(token, "User:alice")))
    (tmp_path / "roles.toml").write_text(
        "[[grants]]\nrole = 'admin'\nprincipals = ['User:alice', 'User:ANONYMOUS']\n"
        "[[grants]]\nrole = 'operator'\nprincipals = ['User:autoscale']\n"
    )
    more = {
        "authentication": AuthenticationSettings(required=True, tokens_file=str(tmp_path / "tokens")),
        "authorization": AuthorizationSettings(roles_file=str(tmp_path / "roles.toml")),
        "review_required": True,
    }
    chroot = unique_name("autoscale")
    with in_process(kafka_cluster, chroot=chroot) as plain:
        topic = plain.create(2)
    # Without any load a topic of two, created with one, is too large: made by hand, to need no writer.
    with in_process(kafka_cluster, chroot=chroot) as plain:
        assert plain.alter(topic, 4).error == "NONE"
    headers = {"authorization": f"Bearer {token}"}
    with controller(kafka_cluster, replace(RULES, cooldown=0.5), chroot, **more) as (running, _):

        def ask(method: str, path: str) -> Any:
            return running.http.request(method, path, headers=headers).json()

        def reviews(status: str) -> list[Any]:
            return [one for one in ask("GET", "/v1/reviews")["reviews"] if one["status"] == status]

        def decision() -> Any:
            return ask("GET", "/v1/autoscale")["topics"][0]["decision"] or {}

        await_true(lambda: len(reviews("pending")) == 1, "a review is filed")
        (review,) = reviews("pending")
        assert review["requested_by"] == "User:autoscale"
        await_true(lambda: decision().get("held_by") == "under_way", "it waits for the review")
        assert f"review {review['review_id']} waits" in decision()["reason"]
        assert len(reviews("pending")) == 1
        assert ask("POST", f"/v1/reviews/{review['review_id']}/discard")["status"] == "discarded"
        await_true(lambda: len(reviews("pending")) == 1, "after the cool-down it is filed again")
        (second,) = reviews("pending")
        done = ask("POST", f"/v1/reviews/{second['review_id']}/approve")
        assert done["status"] == "done", done
        await_true(lambda: ask("GET", f"/v1/topics/{topic}")["undeleted_partition_count"] == 2, "it shrinks")


@pytest.mark.long
def test_without_the_right_it_is_refused_and_says_so(kafka_cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(str(hashed("alice-" + "t" * 40, "User:alice")))
    more = {
        "authentication": AuthenticationSettings(required=True, tokens_file=str(tmp_path / "tokens")),
        "authorization": AuthorizationSettings(super_users=frozenset({"User:alice"})),
    }
    chroot = unique_name("autoscale")
    with in_process(kafka_cluster, chroot=chroot) as plain:
        topic = plain.create(1)
        assert plain.alter(topic, 2).error == "NONE"
    with controller(kafka_cluster, RULES, chroot, **more) as (running, _):

        def history() -> list[Any]:
            headers = {"authorization": f"Bearer alice-{'t' * 40}"}
            (row,) = running.http.get("/v1/autoscale", headers=headers).json()["topics"]
            return [one for one in row["history"] if one["outcome"] == "refused"]

        await_true(lambda: bool(history()), "it is refused")
        assert "User:autoscale has no right to ALTER" in history()[0]["reason"]


@pytest.mark.long
def test_a_topic_whose_record_cannot_be_read_does_not_stop_the_others(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("autoscale")
    with in_process(kafka_cluster, chroot=chroot) as plain:
        broken, sound = sorted([plain.create(1), plain.create(1)])
        for topic in (broken, sound):
            assert plain.alter(topic, 2).error == "NONE"
        session_of(plain.service).client.create(f"{AUTOSCALE}/{broken}", b"{}")
    with controller(kafka_cluster, RULES, chroot) as (_, servers):
        until(servers, sound, "the sound one shrinks", count=1)
        assert shown(servers, broken).count == 2


@pytest.mark.long
def test_the_demo_follows_its_load_and_leaves_nothing_behind(tmp_path: Path) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["autoscale", "demo", "--dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"\d+ changes; \d+ records of 200 keys: 0 out of order, 0 lost, 0 doubled", lines[-1])
    assert any(re.fullmatch(r" +1 to \d partitions", line) for line in lines)
    assert processes_of(tmp_path) == []
