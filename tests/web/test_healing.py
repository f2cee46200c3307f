"""The view of self-healing in Chromium, at a controller that finds something."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import in_process
from tests.web.browsing import PHONE, Browsing, Server

RULES = Rules(mode="observe", interval=0.5, disk_share=1e-6, uneven_after=0.0)


@pytest.mark.long
def test_findings_and_figures_are_shown(browsing: Browsing, kafka_cluster: LocalCluster) -> None:
    with in_process(kafka_cluster, healing=RULES) as running, Server(running.service) as server:
        visit = browsing.visit(server.url)
        visit.page.get_by_role("link", name="Healing", exact=True).click()
        visit.await_text("Mode observe; 0 of 6 requests in the last 24 hours.")
        visit.await_text("disk full", "[aria-label=Findings] .badge")
        visit.await_text("a volume of broker 1 is used to ", "[aria-label=Findings]")
        visit.await_text("None.", "[aria-label=Proposals]")
        row = visit.page.locator("[aria-label='Brokers as self-healing sees them'] .body .row")
        assert row.count() == 1
        assert row.first.inner_text().split()[:2] == ["1", "ok"]
        assert visit.violations() == []
        phone = browsing.visit(server.url, "healing", size=PHONE)
        phone.await_text("disk full", "[aria-label=Findings] .badge")
        assert phone.overflow() <= 0
