"""What the page does with more than anybody looks at: a group of many topics, a topic of 10,000 partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Route

from spark_ordered_kafka.client import schemas
from tests.integration.controllers import InProcess
from tests.web.browsing import Browsing, Visit, open_group, starts_with_number

MANY = 10_000


@pytest.mark.long
def test_of_a_group_with_many_topics_those_that_matter_are_shown(
    browsing: Browsing, url: str, topic: str
) -> None:
    def multiply(route: Route) -> None:
        """As if the group read many such topics: one that is behind, and one that holds a partition back."""
        answer = route.fetch()
        found = answer.json()
        (one,) = found["topics"]
        rows = [row | {"lag": 0, "waits_for": []} for row in one["partitions"]]
        copies = [one | {"topic": f"many-{number:02}", "partitions": rows} for number in range(25)]
        copies[23]["partitions"] = [rows[0] | {"lag": 7}, *rows[1:]]
        copies[24]["partitions"] = [rows[0] | {"waits_for": [{"partition": 1, "offset": 5}]}, *rows[1:]]
        route.fulfill(response=answer, json=found | {"topics": copies})

    visit = browsing.visit(url, "groups")
    visit.page.route(f"**/*{topic}/positions", multiply)
    open_group(visit, f"readers of {topic}")
    titles = visit.page.locator("main section h2")
    visit.await_text("20 of 25 topics")
    assert titles.all_inner_texts() == [f"many-{number:02}" for number in (24, 23, *range(18))]
    visit.page.get_by_label("Filter topics by name").fill("-2")
    visit.await_text("5 topics")
    assert titles.all_inner_texts() == [f"many-{number}" for number in range(20, 25)]
    visit.page.get_by_label("Filter topics by name").fill("")
    visit.await_text("20 of 25 topics")
    assert titles.all_inner_texts() == [f"many-{number:02}" for number in (24, 23, *range(18))]
    visit.picture("group-many")


def scaled(view: schemas.TopicView, count: int) -> dict[str, Any]:
    """The answer about a topic, as it would be with more partitions."""
    rows = [json.loads(row.model_dump_json()) for row in view.partitions]
    grown = [{**rows[number % len(rows)], "partition": number, "status": "live"} for number in range(count)]
    return {**json.loads(view.model_dump_json()), "undeleted_partition_count": count, "partitions": grown}


def many_partitions(visit: Visit, controller: InProcess, topic: str) -> None:
    """Let the answers about ``topic`` have 10,000 partitions; all others are the controller's own."""
    answers = {
        details: json.dumps(scaled(controller.topic(topic, details=details), MANY))
        for details in (False, True)
    }
    layouts = controller.http.get(f"/v1/topics/{topic}/layout").json()
    layouts["layouts"][-1] |= {
        "undeleted_partition_count": MANY,
        "starts": [0] * MANY,
        "leader_epochs": [0] * MANY,
    }

    def answer(route: Route) -> None:
        asked = route.request.url
        body = json.dumps(layouts) if "/layout" in asked else answers["details" in asked]
        route.fulfill(body=body, content_type="application/json")

    visit.page.route(f"**/v1/topics/{topic}*", answer)
    visit.page.route(f"**/v1/topics/{topic}/layout*", answer)


@pytest.mark.long
def test_ten_thousand_partitions_are_few_elements(
    browsing: Browsing, controller: InProcess, url: str, topic: str
) -> None:
    visit = browsing.visit(url)
    many_partitions(visit, controller, topic)
    began = visit.page.evaluate("() => performance.now()")
    visit.page.evaluate(f"() => {{ window.location.hash = '#/topics/{topic}'; }}")
    visit.await_text("10,000 partitions of Kafka")
    took = visit.page.evaluate("() => performance.now()") - began
    print(f"first view of 10,000 partitions: {took:.0f} ms")  # noqa: T201 - what docs/page.md says
    table = visit.page.locator(f"[aria-label='Partitions of {topic}']")
    assert table.get_attribute("aria-rowcount") == str(MANY + 1)
    assert table.locator(".body .row").count() < 100
    visit.page.get_by_label("Go to partition").fill("9876")
    table.get_by_text("9876", exact=True).wait_for()
    assert table.locator(".body .row").count() < 100
    visit.picture("ten-thousand")
    table.focus()
    visit.page.keyboard.press("End")
    last = table.locator(f"[aria-rowindex='{MANY + 1}']")
    last.wait_for()
    assert starts_with_number(last.locator(".number").inner_text()) < MANY
