"""Replicas are moved from the page: a broker is drained, and the reassignment is cancelled or rolled back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true, unique_name
from tests.web.browsing import PHONE, Browsing, Visit

MOVED = 4 * TIMEOUT
"""Seconds for a replica without many records to move."""


@pytest.fixture(scope="module")
def client(three_brokers: LocalCluster) -> Iterator[ControllerClient]:
    with ControllerClient(three_brokers.controller_url) as client:
        yield client


@pytest.fixture
def topic(client: ControllerClient) -> str:
    """A topic with a replica on each broker, while nothing is moved any more by the test before."""
    await_true(
        lambda: all(one.complete for one in client.reassignments().requests),
        "all reassignments have ended",
        MOVED,
    )
    topic = unique_name("moved")
    client.create_topic(schemas.CreateTopicRequest(topic=topic, partitions=3, replication_factor=1))
    return topic


def hosts(client: ControllerClient, topic: str) -> set[int]:
    return {broker for row in client.topic(topic).partitions for broker in row.replicas}


def drain(visit: Visit, topic: str, broker: int) -> None:
    visit.go("brokers")
    visit.page.locator(f"[data-key='drain-{broker}']").click()
    visit.field("Topics").fill(topic)
    visit.preview()


@pytest.mark.long
def test_a_broker_is_drained_and_that_is_rolled_back(
    browsing: Browsing, three_brokers: LocalCluster, client: ControllerClient, topic: str
) -> None:
    visit = browsing.visit(three_brokers.controller_url)
    before = {row.partition: row.replicas for row in client.topic(topic).partitions}
    drain(visit, topic, 3)
    row = visit.page.locator(".brokers-plan tbody tr").filter(
        has=visit.page.get_by_role("rowheader", name="3")
    )
    assert "now 1" in row.inner_text()
    assert "then 0" in row.inner_text()
    visit.picture("drain")
    assert visit.violations() == []
    assert hosts(client, topic) == {1, 2, 3}
    visit.button("Move the replicas").click()
    visit.await_toast("has begun")
    await_true(lambda: hosts(client, topic) == {1, 2}, "the broker is drained", MOVED)
    visit.go("reassignments")
    ended = "[aria-label='Reassignments that have ended']"
    # Its own, of all that this cluster has seen: it ends a moment later.
    own = client.reassignment("latest").request_id
    visit.page.locator(f"{ended} [data-key='rollback-{own}']").click()
    visit.button("Preview").click()
    visit.await_text("1 partition would go back", "dialog")
    visit.button("Roll back").last.click()
    await_true(
        lambda: {row.partition: row.replicas for row in client.topic(topic).partitions} == before,
        "the replicas are where they were",
        MOVED,
    )


@pytest.mark.long
def test_a_partition_is_moved_by_hand_and_wrong_brokers_are_refused(
    browsing: Browsing, three_brokers: LocalCluster, client: ControllerClient, topic: str
) -> None:
    visit = browsing.visit(three_brokers.controller_url, f"topics/{topic}")
    (now,) = client.topic(topic).partitions[0].replicas
    visit.page.locator("[data-key='move-0']").click()
    brokers = visit.field("Brokers")
    brokers.fill("1;2")
    visit.button("Preview").click()
    visit.await_text("has the value '1;2'", "dialog .field .error")
    brokers.fill("9")
    visit.button("Preview").click()
    visit.await_text("9", "dialog .error")
    then = now % 3 + 1
    brokers.fill(str(then))
    visit.field("Limit").fill("50")
    visit.preview()
    visit.button("Move the replicas").click()
    await_true(lambda: client.topic(topic).partitions[0].replicas == [then], "the replica has moved", MOVED)


@pytest.mark.long
def test_a_move_by_hand_is_refused_after_another_one(
    browsing: Browsing, three_brokers: LocalCluster, client: ControllerClient, topic: str
) -> None:
    visit = browsing.visit(three_brokers.controller_url, f"topics/{topic}")
    visit.page.locator("[data-key='move-0']").wait_for()
    visit.hide()
    (now,) = client.topic(topic).partitions[0].replicas
    there, elsewhere = now % 3 + 1, (now + 1) % 3 + 1
    row = schemas.PartitionReassignment(topic=topic, partition=0, replicas=[there])
    client.reassign(schemas.ReassignmentRequest(partitions=[row]))
    await_true(lambda: client.topic(topic).partitions[0].replicas == [there], "the replica has moved", MOVED)
    await_true(lambda: client.reassignment("latest").complete, "the reassignment has ended", MOVED)
    visit.page.locator("[data-key='move-0']").click()
    brokers = visit.field("Brokers")
    assert brokers.input_value() == str(now)
    brokers.fill(str(elsewhere))
    visit.button("Preview").click()
    visit.await_text("has changed since the form was opened", "dialog .error[role=alert]")


@pytest.mark.long
def test_log_directories_of_all_brokers_are_balanced(
    browsing: Browsing, three_brokers: LocalCluster, topic: str
) -> None:
    visit = browsing.visit(three_brokers.controller_url, "brokers")
    visit.page.locator("[data-key='drain-3']").wait_for()
    visit.button("Balance log directories").click()
    assert visit.field("Brokers").input_value() == "1,2,3"
    visit.field("Topics").fill(topic)
    visit.button("Preview").click()
    outcome = visit.page.locator("dialog").get_by_text("There is nothing to move")
    outcome.or_(visit.page.locator("dialog .preview .plan")).wait_for()
    visit.field("Brokers").fill("")
    visit.button("Preview").click()
    visit.await_text("brokers is missing", "dialog .field .error")


def limit_while_it_runs(visit: Visit, client: ControllerClient) -> None:
    """Change its limits by the form; another operator's limits are not overwritten."""
    running = client.reassignment("latest").request_id
    visit.button("Change limit").click()
    assert visit.field("Between brokers").input_value() == "0.1"
    visit.field("Between brokers").fill("0.2")
    visit.field("Between log directories").fill("")
    visit.preview()
    visit.picture("throttle")
    assert "100 kB/s" in visit.text("dialog .plan")
    assert visit.violations() == []
    visit.button("Set the limits").click()
    visit.await_toast("are set")
    now = client.reassignment("latest")
    assert (now.throttle, now.replica_alter_log_dirs_throttle) == (200_000, None)
    visit.go(f"reassignments/{running}")
    visit.await_text("200 kB/s, between log directories none", ".facts")
    visit.button("Change limit").click()
    visit.field("Between brokers").fill("9")
    visit.preview()
    client.alter_reassignment_throttle(running, schemas.ReassignmentThrottleRequest(throttle=300_000))
    visit.button("Set the limits").click()
    visit.await_text("has changed since the form was opened", "dialog .error[role=alert]")
    assert client.reassignment("latest").throttle == 300_000
    visit.button("Close").click()


@pytest.mark.long
def test_a_reassignment_is_seen_in_progress_and_cancelled(
    browsing: Browsing, three_brokers: LocalCluster, client: ControllerClient, topic: str
) -> None:
    (moving,) = (row.partition for row in client.topic(topic).partitions if row.replicas == [3])
    producer = Producer({"bootstrap.servers": three_brokers.bootstrap_servers})
    # Minutes by any of the limits below: a browser may take one for what it does meanwhile.
    for _ in range(6000):
        producer.produce(topic, bytes(10_000), partition=moving)
    assert producer.flush(120) == 0
    visit = browsing.visit(three_brokers.controller_url)
    drain(visit, topic, 3)
    visit.field("Limit").fill("0.1")
    visit.preview()
    visit.button("Move the replicas").click()
    visit.go("")
    visit.page.locator("[role=progressbar]").wait_for()
    visit.picture("reassignment-in-progress")
    limit_while_it_runs(visit, client)
    visit.button("Cancel").click()
    visit.await_text("stay where they were", "dialog")
    visit.button("Cancel the reassignment").click()
    await_true(lambda: client.reassignment("latest").complete, "the reassignment has ended", MOVED)
    assert hosts(client, topic) == {1, 2, 3}
    visit.go("reassignments")
    visit.await_text("cancelled")


@pytest.fixture
def led_by_others(client: ControllerClient) -> str:
    """A topic of two partitions, each led by another replica than the first one."""
    topic = unique_name("led")
    client.create_topic(schemas.CreateTopicRequest(topic=topic, partitions=2, replication_factor=2))
    turned = [
        schemas.PartitionReassignment(topic=topic, partition=row.partition, replicas=row.replicas[::-1])
        for row in client.topic(topic).partitions
    ]
    client.reassign(schemas.ReassignmentRequest(partitions=turned, elect_leaders=False))
    await_true(
        lambda: (
            {row.partition: row.replicas for row in client.topic(topic).partitions}
            == {row.partition: row.replicas for row in turned}
        ),
        "the order of the replicas is changed",
        MOVED,
    )
    return topic


def leads(client: ControllerClient, topic: str) -> list[bool]:
    """By partition, whether its first replica leads it."""
    return [row.leader == row.replicas[0] for row in client.topic(topic).partitions]


@pytest.mark.long
def test_preferred_leaders_are_elected(
    browsing: Browsing, three_brokers: LocalCluster, client: ControllerClient, led_by_others: str
) -> None:
    topic, url = led_by_others, three_brokers.controller_url
    for name, more in (("", {}), ("-dark", {"dark": True}), ("-phone", {"size": PHONE})):
        visit = browsing.visit(url, f"topics/{topic}", **more)
        visit.button("Elect leaders").click()
        assert visit.field("Topics").input_value() == topic
        visit.preview()
        visit.picture(f"elect{name}")
        assert visit.violations() == []
        assert visit.overflow() <= 0
    rows = visit.page.locator("dialog .plan [role=row]:not(:has([role=columnheader]))")
    now = {row.partition: row for row in client.topic(topic).partitions}
    assert [text.split() for text in rows.all_inner_texts()] == [
        [f"{topic}-{partition}", str(row.leader), str(row.replicas[0])] for partition, row in now.items()
    ]
    assert leads(client, topic) == [False, False]
    visit.field("Topics").fill("there-is-none")
    visit.button("Preview").click()
    visit.await_text("topics names there-is-none", "dialog .field .error")
    assert visit.button("Elect the leaders").is_disabled()
    visit.field("Topics").fill(topic)
    # From here on by the keyboard: preview, confirm.
    visit.page.keyboard.press("Enter")
    visit.page.locator("dialog .plan").wait_for()
    visit.page.keyboard.press("Enter")
    visit.await_toast("Preferred leaders of 2 partitions are elected")
    await_true(lambda: leads(client, topic) == [True, True], "the first replicas lead")
    visit.go("brokers")
    visit.button("Elect leaders").click()
    visit.field("Topics").fill(topic)
    nothing = visit.page.locator("dialog .error").get_by_text("There is nothing to elect.")

    def has_nothing_to_elect() -> bool:
        visit.button("Preview").click()
        nothing.or_(visit.page.locator("dialog .preview .plan")).wait_for()
        return nothing.is_visible()

    # Not every broker has heard of the election at once, and any may be asked.
    await_true(has_nothing_to_elect, "nothing is left to elect", MOVED)
