"""The web page in Chromium, at a controller on real servers: it shows what the API answers, and changes only what is confirmed."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.change.protocol import CreatePartitions
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering.linear import bucket, modulus
from tests.integration.controllers import Hold, InProcess
from tests.servers import TIMEOUT, await_true, unique_name
from tests.web.browsing import PHONE, VIEWS, Browsing, commit, open_group

MARKUP = "<img src=x onerror=alert(1)>"


def test_every_view_shows_what_the_api_answers(
    browsing: Browsing, controller: InProcess, url: str, topic: str
) -> None:
    visit = browsing.visit(url)
    visit.await_text("1/1", ".tile:has-text('Brokers')")
    visit.page.get_by_role("link", name="Topics", exact=True).click()
    visit.page.get_by_role("link", name=topic).click()
    visit.await_text("3", ".facts")
    rows = visit.page.locator(f"[aria-label='Partitions of {topic}'] .body .row")
    rows.nth(4).wait_for()
    # The tree of splits: 2 and 4 came from 0, 3 from 1.
    tree = [["0"], ["2", "from", "0"], ["4", "from", "0"], ["1"], ["3", "from", "1"]]
    await_true(
        # The texts have lines only once the rows are laid out.
        lambda: [row.split("\n")[0].split()[-3:] for row in rows.all_inner_texts()] == tree,
        "the tree of splits is shown",
    )

    def has_statuses() -> bool:
        """Removed partitions are found empty by and by."""
        status = {row.partition: row.status for row in controller.topic(topic, details=True).partitions}
        texts = zip((0, 2, 4, 1, 3), rows.all_inner_texts(), strict=True)
        return all(status[number] in text for number, text in texts)

    await_true(has_statuses, "the statuses of the API are shown", 2 * TIMEOUT)
    # Layouts are asked for after the partitions.
    visit.await_text("Epoch 2", ".layout-names")
    assert visit.page.locator(".layout-names span").all_inner_texts() == ["Epoch 0", "Epoch 1", "Epoch 2"]
    visit.await_text("shrink 5 → 3")
    visit.go("brokers")
    visit.await_text("/data-1")
    visit.go("groups")
    open_group(visit, f"readers of {topic}")
    visit.await_text("Layout epoch 2")
    visit.go("controllers")
    visit.await_text(controller.service.id)
    visit.go("audit")
    visit.await_text("POST /v1/partition-counts")
    visit.page.locator("[aria-label='Audit log'] .body .row").first.get_by_role("button").click()
    visit.await_text('"event"', "dialog pre")


def test_a_count_is_changed_after_preview_and_confirmation(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(2, prefix="growing")
    visit = browsing.visit(url, f"topics/{topic}")
    visit.button("Change partition count").click()
    confirm = visit.button("Change the partition count")
    visit.field("New partition count").fill("3")
    assert confirm.is_disabled()
    visit.preview()
    assert "0 splits into 0 and 2" in visit.text("dialog .plan")
    assert visit.page.locator("dialog .part-labels span").all_inner_texts() == ["0", "1", "0", "2", "1"]
    # What was not previewed cannot be confirmed.
    visit.field("New partition count").fill("4")
    assert confirm.is_disabled()
    visit.preview()
    visit.picture("change")
    assert controller.topic(topic).undeleted_partition_count == 2
    visit.field("Reason").fill("more load")
    confirm.click()
    visit.await_toast("has begun")
    visit.await_text("growth 2 → 4")
    visit.await_text("4", ".facts div:has-text('Partitions')")
    assert controller.topic(topic).undeleted_partition_count == 4
    lines = controller.http.get("/v1/audit-log").json()["lines"]
    asked = [
        line for line in lines if line.get("topics") == [topic] and line["path"] == "/v1/partition-counts"
    ]
    assert {line["reason"] for line in asked} == {"more load"}


@pytest.mark.long
def test_a_change_is_seen_in_progress_and_cancelled(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(2, prefix="held")
    visit = browsing.visit(url)
    with Hold(CreatePartitions) as hold:
        controller.before = hold
        controller.alter(topic, 3, wait=False)
        hold.await_reached()
        visit.await_text("creating", f"[aria-label='Steps of the change of {topic}'] [aria-current=step]")
        visit.picture("change-in-progress")
        visit.button("Cancel").click()
        visit.button("Cancel the change").click()
        visit.await_text("being cancelled", ".change")
    controller.before = lambda _: None
    assert controller.await_end(topic).outcome == "cancelled"
    visit.page.locator(".change").wait_for(state="detached")


def test_errors_stand_beside_their_field(
    browsing: Browsing, controller: InProcess, url: str, topic: str
) -> None:
    visit = browsing.visit(url, f"topics/{topic}")
    visit.button("Change partition count").click()
    field = visit.field("New partition count")
    beside = f"#{(field.get_attribute('aria-describedby') or '').split()[-1]}"
    for text, error in (
        ("", "is missing"),
        ("many", "has the value 'many': a whole number from 1 is needed"),
        ("-1", "has the value '-1'"),
        ("1", None),
        ("900000", None),
    ):
        field.fill(text)
        visit.button("Preview").click()
        if error is None:
            # What only the controller knows, it says.
            body = {"topics": [{"topic": topic, "partition_count": int(text)}], "validate_only": True}
            error = controller.http.post("/v1/partition-counts", json=body).json()["topics"][0][
                "error_message"
            ]
        visit.await_text(error, beside)
        assert field.get_attribute("aria-invalid") == "true"
        assert visit.button("Change the partition count").is_disabled()
    assert controller.topic(topic).undeleted_partition_count == 3


def test_names_with_markup_are_shown_as_text(
    browsing: Browsing, kafka_cluster: LocalCluster, url: str, topic: str
) -> None:
    group = f"{MARKUP}{unique_name('g')}"
    commit(kafka_cluster, group, topic)
    visit = browsing.visit(url, "groups")
    open_group(visit, group)
    visit.await_text(group, "h1")
    visit.await_text(topic)
    visit.go(f"topics/{MARKUP}")
    visit.await_text(MARKUP, "main .note")
    visit.button("Move replicas").click()
    visit.page.get_by_label("Goal").select_option("drain")
    visit.field("Brokers").fill("1")
    visit.field("Topics").fill(MARKUP)
    visit.button("Preview").click()
    visit.await_text(MARKUP, "dialog .error")
    assert visit.page.locator("main img, dialog img").count() == 0


@pytest.mark.long
def test_log_directories_are_emptied(browsing: Browsing, controller: InProcess, url: str) -> None:
    topic = controller.create(4, prefix="dirs")
    visit = browsing.visit(url, "brokers")
    path = visit.page.locator("[aria-label='Log directories'] .body .row code").first.inner_text()
    visit.button("Empty").first.click()
    visit.field("Topics").fill(topic)
    visit.preview()
    assert "0 B" in visit.text("dialog .plan")
    visit.picture("plan-log-dirs")
    visit.button("Move the replicas").click()
    visit.await_toast("has begun")

    def dirs() -> set[str]:
        rows = controller.http.get("/v1/replica-log-dirs", params={"topic": topic}).json()["replicas"]
        return {row["current_replica_log_dir"] for row in rows}

    await_true(lambda: path not in dirs(), "the log directory is empty")
    visit.go("reassignments")
    visit.await_text("done", "[aria-label='Reassignments that have ended']")


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_view_is_accessible(browsing: Browsing, url: str, topic: str, dark: bool) -> None:
    visit = browsing.visit(url, dark=dark)
    for view in (*VIEWS, f"topics/{topic}", f"groups/readers of {topic}"):
        visit.go(view)
        visit.page.locator("main h1").wait_for()
        visit.page.locator("main .empty:has-text('Not known yet')").first.wait_for(state="hidden")
        assert visit.violations() == [], view
        visit.picture(
            f"{(view or 'overview').partition('/')[0]}{'-one' if '/' in view else ''}{'-dark' if dark else ''}"
        )
    visit.go(f"topics/{topic}")
    visit.button("Change partition count").click()
    visit.field("New partition count").fill("6")
    visit.preview()
    assert visit.violations() == []


def test_no_view_is_wider_than_its_window(browsing: Browsing, url: str, topic: str) -> None:
    visit = browsing.visit(url, size=PHONE)
    for view in (*VIEWS, f"topics/{topic}", f"groups/readers of {topic}"):
        visit.go(view)
        visit.page.locator("main .empty:has-text('Not known yet')").first.wait_for(state="hidden")
        assert visit.overflow() <= 0, view
        visit.picture(f"{(view or 'overview').partition('/')[0]}{'-one' if '/' in view else ''}-phone")
        for width in (701, 768, 1024, 1100, PHONE[0]):
            visit.page.set_viewport_size({"width": width, "height": PHONE[1]})
            await_true(lambda: visit.overflow() <= 0, f"{view} fits into {width} pixels")


def test_the_keyboard_is_enough(browsing: Browsing, controller: InProcess, url: str) -> None:
    topic = controller.create(1, prefix="keys")
    visit = browsing.visit(url, f"topics/{topic}")
    visit.await_text("Epoch 0")

    def tab_to(name: str) -> None:
        for _ in range(60):
            visit.page.keyboard.press("Tab")
            focused = visit.page.evaluate(
                "() => [document.activeElement.textContent, document.activeElement.matches(':focus-visible')]"
            )
            if focused[0] == name:
                assert focused[1], f"the focus on {name} is not seen"
                return
        raise AssertionError(f"{name} is not reached by the tab key")

    tab_to("Change partition count")
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Control+A")
    visit.page.keyboard.type("2")
    visit.page.keyboard.press("Enter")
    visit.page.locator("dialog .plan").wait_for()
    visit.page.keyboard.press("Escape")
    visit.page.locator("dialog").wait_for(state="detached")
    # The focus is back where it was.
    assert visit.page.evaluate("() => document.activeElement.textContent") == "Change partition count"
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Control+A")
    visit.page.keyboard.type("2")
    visit.page.keyboard.press("Enter")
    visit.page.locator("dialog .plan").wait_for()
    visit.page.keyboard.press("Enter")
    visit.await_toast("has begun")
    assert controller.await_end(topic).target == 2


@pytest.mark.long
def test_the_focus_comes_back_to_a_button_that_was_drawn_anew(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(1, prefix="anew")
    visit = browsing.visit(url, f"topics/{topic}")
    visit.await_text("Epoch 0")
    button = visit.button("Change partition count")
    button.focus()
    visit.page.keyboard.press("Enter")
    visit.page.locator("dialog").wait_for()
    drawn = button.element_handle()
    # What others do, or a reading of the logs, draws the buttons of the view anew.
    assert controller.alter(topic, 2).error == "NONE"
    visit.page.wait_for_function("drawn => !drawn.isConnected", arg=drawn)
    visit.page.keyboard.press("Escape")
    visit.page.locator("dialog").wait_for(state="detached")
    assert visit.page.evaluate("() => document.activeElement.textContent") == "Change partition count"


@pytest.mark.long
def test_a_click_counts_although_the_view_is_drawn_anew_meanwhile(
    browsing: Browsing, controller: InProcess, url: str
) -> None:
    topic = controller.create(1, prefix="pressed")
    visit = browsing.visit(url, f"topics/{topic}")
    visit.await_text("Epoch 0")
    visit.button("Change partition count").hover()
    visit.page.mouse.down()
    assert controller.alter(topic, 2).error == "NONE"
    visit.await_text("Epoch 1")
    visit.page.mouse.up()
    visit.page.locator("dialog").wait_for()
    visit.page.keyboard.press("Escape")

    def opens_anew() -> bool:
        visit.page.mouse.down()
        visit.page.mouse.up()
        shown = visit.page.locator("dialog").get_by_text("has 2 partitions").is_visible()
        visit.page.keyboard.press("Escape")
        return shown

    # What waited for the pointer is shown now. The view may have read the new layout before the events have it.
    await_true(opens_anew, "the dialog of the topic as it is now")


@pytest.mark.long
def test_the_pictures_are_those_of_linear_hashing(browsing: Browsing, url: str) -> None:
    visit = browsing.visit(url)
    counts = [(initial, total) for initial in (1, 2, 3, 5, 12) for total in range(initial, 6 * initial + 3)]
    found = visit.page.evaluate(
        """async (counts) => {
            const { parts, parentOf } = await import("/web/tree.js");
            return counts.map(([initial, total]) => [parts(initial, total),
                Array.from({ length: total }, (_, partition) => parentOf(partition, initial))]);
        }""",
        counts,
    )
    for (initial, total), (parts, parents) in zip(counts, found, strict=True):
        ends = 0.0
        for part in parts:
            assert part["start"] == pytest.approx(ends)
            assert part["width"] == pytest.approx(1 / modulus(part["partition"], initial, total))
            ends += part["width"]
        assert ends == pytest.approx(1)
        # Before a partition is there, its keys are in the one that it is split from.
        assert parents == [
            None if partition < initial else bucket(partition, initial, partition)
            for partition in range(total)
        ]
