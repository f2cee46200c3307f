"""Three brokers, three controllers: whoever of them dies, stands still or is ended, changes go on and nobody is told wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import httpx2
import psutil
import pytest
from confluent_kafka import KafkaException, Producer

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest, TopicResult
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local import servers as local_servers
from tests.integration.live_writer import LiveWriter, live_writers
from tests.integration.test_cli_doctor import Doctor
from tests.integration.trio import LONG, Trio
from tests.servers import TIMEOUT, await_true, unique_name

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    # By default a change waits 2 s for open transactions: on a busy machine that is over before anybody is killed in it.
    config = tmp_path_factory.mktemp("trio-config") / "controller.toml"
    config.write_text("change.drain.timeout.ms = 15000\n")
    command = local_servers.controller_command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            local_servers,
            "controller_command",
            lambda *about: [*command(*about), "--config", str(config)],
        )
        with LocalCluster(tmp_path_factory.mktemp("trio"), brokers=3, controllers=3) as cluster:
            running = Trio(cluster)
            yield running
            running.close()


@pytest.fixture(autouse=True)
def all_running(trio: Trio) -> None:
    """Whatever a test has ended runs again."""
    trio.cluster.up()


@contextmanager
def open_transaction(trio: Trio, topic: str) -> Iterator[Callable[[], None]]:
    """A writer that never commits: a change waits for it, ``change.drain.timeout.ms``, before it is fenced.

    What the block gets aborts the transaction: the change has been held for long enough.
    """
    producer = Producer(
        {
            "bootstrap.servers": trio.cluster.bootstrap_servers,
            "transactional.id": f"ordered:{topic}:idle:0",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(LONG)
    producer.begin_transaction()
    producer.produce(topic, b"never committed", b"key-1", partition=0)
    assert producer.flush(TIMEOUT) == 0

    def end() -> None:
        # It may have been fenced.
        with suppress(KafkaException):
            producer.abort_transaction(LONG)

    yield end
    producer.purge()


@dataclass(frozen=True)
class Held:
    """A change that waits for an open transaction: its id, its result as a client that waits for it is told, and the call
    that aborts the transaction."""

    change: str
    result: Future[TopicResult]
    let_go: Callable[[], None]


@contextmanager
def changing(trio: Trio, topic: str, count: int, url: str | None = None) -> Iterator[Held]:
    """A change that is closing when the block begins. ``url`` is of the controller that is asked, else all are given."""
    via = None if url is None else trio.single(url)
    with ThreadPoolExecutor(1) as pool, open_transaction(trio, topic) as let_go:
        result = pool.submit(trio.alter, topic, count, via=via)
        yield Held(trio.await_step(topic, "closing", "fencing"), result, let_go)


def test_every_controller_says_who_leads(trio: Trio) -> None:
    leader = trio.await_leader()
    for url in trio.urls:
        ready = trio.single(url).readyz()
        assert (ready.error, ready.leader) == ("NONE", leader)
        assert ready.role == ("leader" if url == leader else "follower")
        found = trio.single(url).controllers()
        assert {one.url: one.role for one in found.controllers} == {
            other: "leader" if other == leader else "follower" for other in trio.urls
        }
        assert (found.leader, found.epoch) == (leader, ready.epoch)


def test_the_doctor_says_once_what_all_of_them_see(trio: Trio) -> None:
    found = Doctor(trio.cluster.bootstrap_servers, trio.cluster.controller_url)()
    (single,) = [one for one in found if "a single server: while it is away" in one["message"]]
    assert (single["check"], single["status"]) == ("zookeeper", "warning")
    assert [one for number, one in enumerate(found) if one in found[:number]] == []
    assert len([one for one in found if one["check"] == "rights"]) == len(trio.urls)


@pytest.mark.long
def test_what_one_controller_changes_all_show_at_once(trio: Trio) -> None:
    first, second = (trio.single(url) for url in trio.followers())
    topic = trio.create(2, via=first)
    assert topic in [one.topic for one in second.topics().topics]
    for epoch, count in enumerate((3, 5, 4, 6, 2), 1):
        assert trio.alter(topic, count, via=first).error == "NONE"
        assert second.writer_layout(topic).layout_epoch == epoch
        assert [one.epoch for one in second.layout(topic, epoch).layouts] == [epoch]
        assert second.topic(topic).undeleted_partition_count == count
        assert [one.undeleted_partition_count for one in second.topics().topics if one.topic == topic] == [
            count
        ]
        first, second = second, first


def test_answers_of_the_leader_come_through_a_follower_as_they_are(trio: Trio) -> None:
    leader, follower = trio.await_leader(), trio.followers()[0]
    topic = trio.create()
    requests: list[tuple[str, str, object, dict[str, str]]] = [
        ("POST", "/v1/topics", {"topic": topic, "partitions": 1}, {}),
        ("POST", "/v1/topics", {"topic": "a b"}, {}),
        ("POST", "/v1/partition-counts", {"topics": [{"topic": topic, "partition_count": 0}]}, {"wait": "5"}),
        ("DELETE", f"/v1/topics/{topic}/change", None, {}),
        ("PATCH", f"/v1/topics/{topic}", {"configs": {"no.such": "1"}}, {"wait": "x"}),
    ]
    for method, path, body, params in requests:
        answers = [
            httpx2.request(
                method,
                url + path,
                json=body,
                params=params,
                timeout=LONG,
                trust_env=False,
                follow_redirects=True,
            )
            for url in (leader, follower)
        ]
        assert answers[0].status_code == answers[1].status_code, answers[1].text
        assert answers[0].json() == answers[1].json()
        assert answers[1].json().get("error_code") != 0


def test_the_leader_dies_in_mid_change(trio: Trio) -> None:
    leader = trio.await_leader()
    topic, other = trio.create(), trio.create()
    with (
        live_writers(trio.cluster.bootstrap_servers, ",".join(trio.urls), topic) as writers,
        # Both before either change: opening one may take longer than a change waits for the other.
        open_transaction(trio, topic) as end_first,
        open_transaction(trio, other) as end_second,
        ThreadPoolExecutor(2) as pool,
    ):
        result = pool.submit(trio.alter, topic, 4)
        cut_off = pool.submit(trio.alter, other, 3, via=trio.single(leader))
        change = trio.await_step(topic, "closing", "fencing")
        trio.await_step(other, "closing", "fencing")
        trio.cluster.kill(trio.name(leader))
        end_first()
        end_second()
        ended = result.result(LONG)
        assert (ended.error, ended.change_id) == ("NONE", change)
        assert trio.await_leader(besides=leader) != leader
        # Who knows of no other controller is told the truth as well.
        with pytest.raises(OrderedKafkaError, match="may have been carried out"):
            cut_off.result(LONG)
        for name, count in ((topic, 4), (other, 3)):
            last = trio.await_end(name)
            assert (last.outcome, last.target) == ("done", count)
        _await_commits(writers)
    trio.check(topic, [2, 4])


@pytest.mark.long
def test_a_leader_that_wakes_up_after_its_session_does_nothing(trio: Trio) -> None:
    topic = trio.create()
    old = trio.await_leader()
    epoch = trio.client.controllers().epoch
    with live_writers(trio.cluster.bootstrap_servers, ",".join(trio.urls), topic) as writers:
        with changing(trio, topic, 4, trio.followers()[0]) as held, ThreadPoolExecutor(2) as pool:
            trio.cluster.pause(trio.name(old))
            try:
                held.let_go()
                new = trio.await_leader(besides=old)
                assert trio.await_end(topic).outcome == "done"
                assert trio.alter(topic, 3, via=trio.single(new)).error == "NONE"
                layouts = trio.single(new).layout(topic)
                # These wait in its sockets, and are the first that it sees when it wakes up.
                unwanted = unique_name("unwanted")
                body = {"topic": unwanted, "partitions": 1, "replication_factor": 1}
                write = pool.submit(httpx2.post, f"{old}/v1/topics", json=body, timeout=LONG, trust_env=False)
                path = f"{old}/v1/topics/{topic}/layout"
                read = pool.submit(httpx2.get, path, timeout=LONG, trust_env=False)
                _await_connections(old, 2)
            finally:
                trio.cluster.resume(trio.name(old))
            # It has sent the client to the new leader, or has refused it: as a leader that was deposed it does nothing.
            done = write.result(LONG).status_code == httpx2.codes.CREATED
            assert write.result().status_code in (201, 307, 503, 504), write.result().text
            assert (unwanted in [one.topic for one in trio.single(new).topics().topics]) == done
            answer = read.result(LONG)
            assert answer.status_code == httpx2.codes.GATEWAY_TIMEOUT or answer.json() == asdict(layouts)
            held.result.exception(LONG)
        await_true(lambda: _role(trio.single(old)) == "follower", "follower", LONG)
        now = trio.client.controllers()
        assert now.leader == new
        assert epoch is not None
        assert now.epoch == epoch + 1
        _await_commits(writers)
    trio.check(topic, [2, 4, 3])


def _await_commits(writers: Sequence[LiveWriter]) -> None:
    for writer in writers:
        writer.await_commits(2)


def _role(client: ControllerClient) -> str | None:
    """The part that a controller plays; None while it cannot reach its servers."""
    try:
        return client.readyz().role
    except UnavailableError:
        return None


def _await_connections(url: str, count: int) -> None:
    """Wait until so many connections to a process that stands still are open: the kernel accepts them."""
    port = int(url.rsplit(":", 1)[1])

    def accepted() -> bool:
        own = psutil.Process().net_connections("tcp")
        return (
            sum(bool(one.raddr) and one.raddr.port == port for one in own if one.status == "ESTABLISHED")
            >= count
        )

    await_true(accepted, f"{count} connections to {url}", LONG)


@pytest.mark.long
def test_sigterm_hands_a_change_over_without_waiting_for_the_session(trio: Trio) -> None:
    topic = trio.create()
    old = trio.await_leader()
    urls = ",".join(trio.urls)
    with live_writers(trio.cluster.bootstrap_servers, urls, topic) as writers:
        other = trio.create()
        with open_transaction(trio, other) as end_other, ThreadPoolExecutor(1) as pool:
            altered = pool.submit(_cli, "topics", "alter", urls, "--topic", other, "--partitions", "3")
            trio.await_step(other, "closing", "fencing")
            with changing(trio, topic, 5) as held:
                trio.cluster.stop(trio.name(old))
                held.let_go()
                end_other()
                ended = held.result.result(LONG)
            told = altered.result(LONG)
        assert (ended.error, ended.change_id) == ("NONE", held.change)
        assert (told["change"], told["last_change"]["outcome"]) == (None, "done")
        assert trio.await_leader(besides=old) != old
        assert [one["url"] for one in _cli("controller", "list", urls)["controllers"]].count(old) == 0
        log = trio.cluster.log(trio.name(old)).read_text()
        assert f"{held.change} is left to the next controller" in log
        assert "not the controller any more" in log
        _await_commits(writers)
    trio.check(topic, [2, 5])


def _cli(group: str, command: str, urls: str, *options: str) -> dict[str, Any]:
    """What a command prints."""
    words = [sys.executable, "-m", "spark_ordered_kafka.cli", group, command, "--controller", urls, *options]
    ended = subprocess.run(
        [*words, "--output", "json"], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("end", [pytest.param("kill", marks=pytest.mark.long), "stop"])
def test_zookeeper_goes_and_comes_back_in_mid_change(trio: Trio, end: str) -> None:
    topic = trio.create()
    trio.await_leader()
    with live_writers(trio.cluster.bootstrap_servers, ",".join(trio.urls), topic) as writers:
        with changing(trio, topic, 4) as held:
            getattr(trio.cluster, end)("zookeeper-1")
            assert httpx2.get(f"{trio.urls[0]}/healthz", timeout=TIMEOUT, trust_env=False).is_success
            trio.cluster.start("zookeeper-1")
            held.let_go()
            # Whoever waits may be told that it is not known; the change itself ends, once.
            held.result.exception(LONG)
        trio.await_leader()
        last = trio.await_end(topic)
        assert (last.id, last.outcome) == (held.change, "done")
        _await_commits(writers)
    trio.check(topic, [2, 4])


@pytest.mark.long
def test_a_broker_is_down_while_a_change_and_a_creation_run(trio: Trio) -> None:
    topic = trio.create(3)
    with live_writers(trio.cluster.bootstrap_servers, ",".join(trio.urls), topic) as writers:
        with changing(trio, topic, 4) as held, ThreadPoolExecutor(1) as pool:
            trio.cluster.kill("broker-3")
            other = unique_name("made")
            request = CreateTopicRequest(topic=other, partitions=4, replication_factor=2)
            made = pool.submit(trio.client.create_topic, request)
            assert made.result(LONG).topic == other
            held.let_go()
            ended = held.result.result(LONG)
        # Fences and boundaries wait for the leaders that the broker had; writers go on in any case.
        assert ended.error == "NONE", ended
        trio.cluster.start("broker-3")
        _await_commits(writers)
    trio.check(topic, [3, 4])
    assert trio.client.topic(other).undeleted_partition_count == 4


@pytest.mark.long
def test_a_client_of_all_notices_no_take_over(trio: Trio) -> None:
    """It creates and alters without a pause, and every answer is the one of a cluster in which nobody dies."""
    stop = threading.Event()
    made: list[tuple[str, list[int]]] = []

    def work() -> None:
        while not stop.is_set():
            topic = trio.create(1)
            counts = [1]
            made.append((topic, counts))
            for count in (2, 3, 1):
                ended = trio.alter(topic, count)
                assert ended.error == "NONE", ended
                counts.append(count)
                assert trio.client.writer_layout(topic).undeleted_partition_count == count

    with ThreadPoolExecutor(2) as pool:
        working = [pool.submit(work) for _ in range(2)]
        try:
            for _ in range(2):
                leader = trio.await_leader()
                before = len(made)
                await_true(lambda: len(made) >= before + 3, "progress", LONG)  # noqa: B023 - waited for here
                trio.cluster.kill(trio.name(leader))
                trio.await_leader(besides=leader)
                trio.cluster.start(trio.name(leader), wait=False)
            leader = trio.await_leader()
            trio.cluster.stop(trio.name(leader))
        finally:
            stop.set()
        for one in working:
            one.result(LONG)
    for topic, counts in made:
        layouts = trio.client.layout(topic).layouts
        assert [one.undeleted_partition_count for one in layouts] == counts
