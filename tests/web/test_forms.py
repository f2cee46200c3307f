"""Topics come and go by the page's forms, and are configured; what others changed meanwhile is not overwritten."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, exists
from tests.integration.foreign_clients import produce
from tests.servers import await_true, create_topic, unique_name
from tests.web.browsing import PHONE, Browsing, Visit


def open_form(visit: Visit, view: str, button: str) -> None:
    """Open a view, and the form behind a button of it once that can be used."""
    visit.go(view)
    found = visit.page.locator("main button:not([aria-disabled])").get_by_text(button, exact=True)
    found.first.click()
    visit.page.locator("dialog").wait_for()


def beside(visit: Visit, label: str) -> str:
    """Where the error of a field stands."""
    described: str = visit.page.locator("dialog").get_by_label(label).get_attribute("aria-describedby") or ""
    return f"#{described.split()[-1]}"


def patch(controller: InProcess, topic: str, **changed: str) -> None:
    """Configure the topic, as another operator does."""
    body = {"configs": {name.replace("_", "."): value for name, value in changed.items()}}
    answer: httpx2.Response = controller.http.patch(f"/v1/topics/{topic}", json=body)
    assert answer.status_code == 200, answer.text
    # The broker that answers for it hears of it a moment later.
    await_true(
        lambda: configs(controller, topic).items() >= body["configs"].items(), "Kafka's new configuration"
    )


def configs(controller: InProcess, topic: str) -> dict[str, Any]:
    return dict(controller.topic(topic, details=True).configs or {})


def test_a_topic_is_created(browsing: Browsing, controller: InProcess, url: str) -> None:
    name = unique_name("made")
    visit = browsing.visit(url)
    open_form(visit, "topics", "Create topic")
    visit.button("Preview").click()
    visit.await_text("Name is missing", beside(visit, "Name"))
    visit.field("Name").fill("a b")
    visit.field("Kafka's configuration").fill("retention.ms")
    visit.button("Preview").click()
    visit.await_text("has the value 'a b'", beside(visit, "Name"))
    visit.await_text("has the line 'retention.ms'", beside(visit, "Kafka's configuration"))
    visit.field("Name").fill(name)
    visit.field("Partitions").fill("3")
    visit.field("Replication factor").fill("9")
    visit.field("Kafka's configuration").fill("retention.ms=soon")
    visit.button("Preview").click()
    # What only the controller and Kafka know.
    visit.await_text("9", beside(visit, "Replication factor"))
    visit.field("Replication factor").fill("1")
    visit.button("Preview").click()
    visit.await_text("retention.ms", beside(visit, "Kafka's configuration"))
    visit.field("Kafka's configuration").fill("retention.ms = 3600000\ncleanup.policy=delete")
    visit.preview()
    visit.picture("create")
    assert visit.violations() == []
    assert visit.page.locator("dialog .part-labels span").all_inner_texts() == ["0", "1", "2"]
    assert not any(row["topic"] == name for row in controller.http.get("/v1/topics").json()["topics"])
    visit.button("Create the topic").click()
    visit.await_toast("is created")
    visit.await_text(name, "h1")
    visit.await_text("3600000", "[aria-label=Configuration]")
    assert controller.topic(name).initial_partition_count == 3
    assert configs(controller, name) == {"retention.ms": "3600000", "cleanup.policy": "delete"}


@pytest.mark.long
def test_a_topic_is_adopted_with_the_hash_that_fits(
    browsing: Browsing, controller: InProcess, kafka_cluster: LocalCluster, url: str
) -> None:
    topic = create_topic(kafka_cluster.bootstrap_servers, unique_name("foreign"), 3)
    produce(kafka_cluster, topic, [(b"key-%d" % number, b"value") for number in range(60)], "murmur2_random")
    visit = browsing.visit(url)
    open_form(visit, "topics", "Adopt topic")
    visit.page.locator(f"datalist option[value='{topic}']").wait_for(state="attached")
    name = visit.page.locator("dialog").get_by_label("Topic of Kafka")
    name.fill("there-is-none")
    visit.button("Preview").click()
    visit.await_text("does not exist in Kafka", beside(visit, "Topic of Kafka"))
    name.fill(topic)
    hashes = visit.page.get_by_label("Hash of its")
    hashes.select_option("crc32")
    visit.button("Preview").click()
    visit.await_text("murmur2 60 of 60", beside(visit, "Hash of its producers"))
    visit.picture("adopt-refused")
    hashes.select_option("murmur2")
    visit.preview()
    visit.await_text("lie where murmur2 puts them", "dialog .plan")
    assert visit.violations() == []
    visit.button("Adopt the topic").click()
    visit.await_toast("is under management")
    assert controller.topic(topic).hash == "murmur2"


@pytest.mark.long
def test_topics_are_deleted_and_released_after_their_name_is_typed(
    browsing: Browsing, controller: InProcess, kafka_cluster: LocalCluster, url: str
) -> None:
    gone, kept = controller.create(2, prefix="gone"), controller.create(2, prefix="kept")
    visit = browsing.visit(url)
    open_form(visit, f"topics/{gone}", "Delete")
    name = visit.field("Name of the topic")
    name.fill(kept)
    visit.button("Preview").click()
    visit.await_text(f"{gone} is needed", beside(visit, "Name of the topic, to confirm"))
    assert visit.button("Delete the topic").is_disabled()
    name.fill(gone)
    visit.preview()
    visit.picture("delete")
    assert visit.violations() == []
    assert exists(kafka_cluster, gone)
    visit.button("Delete the topic").click()
    visit.await_toast("is deleted")
    visit.await_text("Topics", "h1")
    await_true(lambda: not exists(kafka_cluster, gone), "the topic is gone")
    open_form(visit, f"topics/{kept}", "Release")
    visit.field("Name of the topic").fill(kept)
    visit.preview()
    visit.button("Release the topic").click()
    visit.await_toast("is released")
    assert controller.http.get(f"/v1/topics/{kept}").status_code == 404
    assert exists(kafka_cluster, kept)


@pytest.mark.long
def test_a_configuration_is_altered_and_a_stale_form_is_refused(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(1, prefix="set", configs={"retention.ms": "1000000", "segment.ms": "600000"})
    visit = browsing.visit(url)
    open_form(visit, f"topics/{topic}", "Configure")
    lines = visit.field("Kafka's configuration")
    assert lines.input_value() == "retention.ms=1000000\nsegment.ms=600000"
    visit.button("Preview").click()
    visit.await_text("Nothing differs", "dialog .error[role=alert]")
    lines.fill("retention.ms=never")
    visit.button("Preview").click()
    visit.await_text("retention.ms", beside(visit, "Kafka's configuration"))
    lines.fill("retention.ms=2000000\nmax.message.bytes=2000")
    visit.preview()
    rows = visit.page.locator("dialog .plan tbody tr")
    assert [row.split() for row in rows.all_inner_texts()] == [
        ["max.message.bytes", "not", "set", "2000"],
        ["retention.ms", "1000000", "2000000"],
        ["segment.ms", "600000", "not", "set"],
    ]
    visit.picture("configure")
    assert visit.violations() == []
    # Another operator, meanwhile.
    patch(controller, topic, retention_ms="5000000")
    visit.button("Alter the topic").click()
    visit.await_text("has changed since the form was opened", "dialog .error[role=alert]")
    assert configs(controller, topic)["retention.ms"] == "5000000"
    visit.button("Close").click()
    visit.await_text("5000000", "[aria-label=Configuration]")
    open_form(visit, f"topics/{topic}", "Configure")
    visit.field("Kafka's configuration").fill("retention.ms=2000000")
    visit.page.get_by_label("Ordered delivery").select_option("false")
    visit.preview()
    visit.button("Alter the topic").click()
    visit.await_toast("is altered")
    await_true(lambda: not controller.topic(topic).ordered_delivery, "delivery is not ordered any more")
    await_true(
        lambda: configs(controller, topic) == {"retention.ms": "2000000"},
        "Kafka has the configuration of the form",
    )


@pytest.mark.long
def test_a_form_is_as_old_as_what_it_is_filled_in_with(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(1, prefix="old", configs={"retention.ms": "1000000"})
    visit = browsing.visit(url, f"topics/{topic}")
    visit.await_text("1000000", "[aria-label=Configuration]")
    visit.hide()
    # Another operator, whom the view does not show.
    patch(controller, topic, retention_ms="5000000")
    visit.button("Configure").click()
    lines = visit.field("Kafka's configuration")
    assert lines.input_value() == "retention.ms=1000000"
    lines.fill("retention.ms=2000000")
    visit.button("Preview").click()
    visit.await_text("has changed since the form was opened", "dialog .error[role=alert]")
    assert visit.button("Alter the topic").is_disabled()
    assert configs(controller, topic)["retention.ms"] == "5000000"


def test_the_limit_of_a_broker_is_as_old_as_its_form(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    (broker,) = controller.http.get("/v1/brokers").json()["brokers"]
    path = f"/v1/brokers/{broker['id']}/guard-rails"
    visit = browsing.visit(url, "brokers")
    visit.page.locator(f"[data-key='limit-{broker['id']}']").wait_for()
    visit.hide()
    try:
        assert controller.http.put(path, json={"max_partitions": 90_000}).status_code == 200
        visit.button("Limit").click()
        visit.field("Replicas at most").fill("80000")
        visit.button("Preview").click()
        visit.await_text("has changed since the form was opened", "dialog .error[role=alert]")
    finally:
        assert controller.http.put(path, json={"max_partitions": None}).status_code == 200


@pytest.mark.long
def test_of_two_operators_the_second_does_not_undo_the_first(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    """What was previewed as growth from 2 to 3 would be a shrink once another one has grown the topic to 4."""
    topic = controller.create(2, prefix="both")
    first, second = browsing.visit(url), browsing.visit(url)
    for visit, count in ((first, "4"), (second, "3")):
        open_form(visit, f"topics/{topic}", "Change partition count")
        visit.field("New partition count").fill(count)
        visit.preview()
    first.button("Change the partition count").click()
    first.await_toast("has begun")
    assert controller.await_end(topic).target == 4
    second.button("Change the partition count").click()
    second.await_text("was changed meanwhile: it has layout epoch 1 and 4 partitions now", "dialog .error")
    second.picture("stale")
    assert controller.topic(topic).undeleted_partition_count == 4


@pytest.mark.long
def test_a_broker_is_limited(browsing: Browsing, controller: InProcess, url: str) -> None:
    visit = browsing.visit(url)
    (broker,) = controller.http.get("/v1/brokers").json()["brokers"]
    for text, limit, shown in (
        ("100000", 100_000, "100,000, "),
        ("0", 0, "beyond it"),
        ("", broker["max_partitions"], "none"),
    ):
        open_form(visit, "brokers", "Limit")
        field = visit.field("Replicas at most")
        field.fill("-1")
        visit.button("Preview").click()
        visit.await_text("has the value '-1'", beside(visit, "Replicas at most (optional)"))
        field.fill(text)
        visit.preview()
        visit.picture("limit")
        visit.button("Set the limit").click()
        visit.page.locator("dialog").wait_for(state="detached")
        visit.await_toast("is set")
        (found,) = controller.http.get("/v1/brokers").json()["brokers"]
        assert found["max_partitions"] == limit
        visit.await_text(shown, "[aria-label=Brokers]")


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_forms_fit_a_phone(browsing: Browsing, controller: InProcess, url: str, dark: bool) -> None:
    topic = controller.create(1, prefix="small")
    visit = browsing.visit(url, size=PHONE, dark=dark)
    forms = [("topics", "Create topic"), ("topics", "Adopt topic"), ("brokers", "Limit")]
    forms += [(f"topics/{topic}", button) for button in ("Elect leaders", "Configure", "Release", "Delete")]
    for view, button in forms:
        open_form(visit, view, button)
        visit.picture(f"form-{button.split()[0].lower()}-phone{'-dark' if dark else ''}")
        assert visit.overflow() <= 0, button
        assert visit.violations() == [], button
        visit.button("Close").click()
        visit.page.locator("dialog").wait_for(state="detached")
