"""The page while controllers come and go, and its login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.servers import unique_name
from tests.web.browsing import Browsing, Server

ADMIN, VIEWER = "a" * 40, "v" * 40


@pytest.mark.long
def test_a_server_that_ends_and_comes_back(browsing: Browsing, controller: InProcess) -> None:
    topic = controller.create(1, prefix="before")
    server = Server(controller.service)
    server.start()
    visit = browsing.visit(server.url, "topics")
    visit.await_text(topic)
    server.end()
    visit.await_text("Offline", "#banner")
    visit.picture("offline")
    assert topic in visit.text()
    assert visit.button("Change").first.get_attribute("aria-disabled") == "true"
    later = controller.create(1, prefix="meanwhile")
    with server:
        visit.page.locator("#connection.online").wait_for()
        visit.await_text(later)
        assert visit.text("#banner") == ""


@pytest.mark.long
def test_a_controller_that_was_followed_leads(browsing: Browsing, kafka_cluster: LocalCluster) -> None:
    """Another one leads, and its page is a link away; when it ends, this one's page can change things."""
    chroot = unique_name("pair")
    with (
        in_process(kafka_cluster, chroot=chroot, url="http://127.0.0.1:1") as leader,
        in_process(kafka_cluster, chroot=chroot, await_active=False, url="http://127.0.0.1:2") as follower,
        Server(follower.service) as server,
    ):
        topic = leader.create(1, prefix="led")
        visit = browsing.visit(server.url, f"topics/{topic}")
        link = visit.page.locator("#banner a")
        assert link.get_attribute("href") == f"http://127.0.0.1:1/#/topics/{topic}"
        assert visit.button("Change partition count").get_attribute("aria-disabled") == "true"
        visit.picture("follower")
        leader.service.stop()
        visit.page.locator("#banner a").wait_for(state="detached")
        visit.page.locator("button.primary:not([aria-disabled])").wait_for()
        visit.button("Change partition count").click()
        visit.field("New partition count").fill("2")
        visit.preview()
        visit.button("Change the partition count").click()
        visit.await_text("growth 1 → 2")


@contextmanager
def guarded(cluster: LocalCluster, directory: Path, **more: Any) -> Iterator[InProcess]:
    """A controller that wants a token: one may do everything, one only looks, without seeing the cluster."""
    tokens, roles = directory / "tokens", directory / "roles.toml"
    tokens.write_text(f"{hashed(ADMIN, 'User:admin')}\n{hashed(VIEWER, 'User:looker')}\n")
    roles.write_text('[[grants]]\nrole = "viewer"\nprincipals = ["User:looker"]\ntopics = ["seen-*"]\n')
    with in_process(
        cluster,
        authentication=AuthenticationSettings(required=True, tokens_file=str(tokens)),
        authorization=AuthorizationSettings(super_users=frozenset({"User:admin"}), roles_file=str(roles)),
        **more,
    ) as running:
        yield running


def test_login_rights_and_reviews(browsing: Browsing, kafka_cluster: LocalCluster, tmp_path: Path) -> None:
    with guarded(kafka_cluster, tmp_path) as running, Server(running.service) as server:
        running.http.headers["Authorization"] = f"Bearer {ADMIN}"
        seen, hidden = running.create(1, prefix="seen"), running.create(1, prefix="hidden")
        visit = browsing.visit(server.url, live=False)
        token = visit.page.get_by_label("Token")
        token.wait_for()
        assert visit.page.get_by_label("Password").count() == 0
        assert visit.text("main .error") == ""
        assert visit.violations() == []
        visit.picture("login")
        token.fill("wrong" * 8)
        visit.button("Log in with a token").click()
        visit.await_text("not accepted", "main .error")
        visit.page.get_by_label("Token").fill(VIEWER)
        visit.page.keyboard.press("Enter")
        visit.page.locator("#connection.online").wait_for()
        visit.await_text("looker", "#caller")
        visit.go("topics")
        visit.await_text(seen)
        assert hidden not in visit.text()
        for view in ("brokers", "controllers", "reassignments", "reviews", "audit"):
            visit.go(view)
            visit.await_text("User:looker has no right to DESCRIBE on the cluster", "main .note")
        visit.go(f"topics/{hidden}")
        visit.await_text("Not permitted.", "main .note")
        visit.go(f"topics/{seen}")
        visit.button("Change partition count").click()
        visit.field("New partition count").fill("2")
        visit.button("Preview").click()
        visit.await_text("has no right to ALTER", "dialog .error")
        visit.page.keyboard.press("Escape")
        # The login survives a reload, in this tab alone.
        visit.open("topics")
        visit.await_text(seen)
        assert visit.page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
        assert visit.page.evaluate("() => sessionStorage.length") == 1
        visit.button("Log out").click()
        visit.page.get_by_label("Token").wait_for()
        assert visit.page.evaluate("() => sessionStorage.length") == 0


@pytest.mark.long
def test_a_change_that_needs_a_reason_and_a_review(
    browsing: Browsing, kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    with guarded(kafka_cluster, tmp_path, reason_required=True) as running:
        running.http.headers["Authorization"] = f"Bearer {ADMIN}"
        answer = running.http.post(
            "/v1/topics",
            json={"topic": (topic := unique_name("seen")), "partitions": 1},
            params={"reason": "new"},
        )
        assert answer.status_code == 201
        with Server(running.service) as server:
            visit = browsing.visit(server.url, live=False)
            visit.page.get_by_label("Token").fill(ADMIN)
            visit.page.keyboard.press("Enter")
            visit.page.locator("#connection.online").wait_for()
            visit.go(f"topics/{topic}")
            visit.button("Change partition count").click()
            visit.field("New partition count").fill("2")
            visit.preview()
            visit.button("Change the partition count").click()
            visit.await_text("Reason is missing", "dialog .confirm .error")
            visit.field("Reason").fill("more load")
            visit.button("Change the partition count").click()
            visit.await_text("growth 1 → 2")


@pytest.mark.long
def test_a_review_is_approved_by_another(
    browsing: Browsing, kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    with guarded(kafka_cluster, tmp_path, review_required=True) as running:
        (tmp_path / "tokens").write_text(f"{hashed(ADMIN, 'User:admin')}\n{hashed(VIEWER, 'User:second')}\n")
        (tmp_path / "roles.toml").write_text('[[grants]]\nrole = "admin"\nprincipals = ["User:second"]\n')
        asked = unique_name("asked")
        with Server(running.service) as server:
            second = {"Authorization": f"Bearer {VIEWER}"}
            answer = running.http.post("/v1/topics", json={"topic": asked, "partitions": 1}, headers=second)
            assert answer.status_code == 202
            visits = []
            for token in (ADMIN, VIEWER):
                visit = browsing.visit(server.url, "reviews", live=False)
                visit.page.get_by_label("Token").fill(token)
                visit.page.keyboard.press("Enter")
                visit.await_text("POST /v1/topics")
                visits.append(visit)
            first, own = visits
            own.await_text("pending")
            assert own.button("Approve").get_attribute("aria-disabled") == "true"
            first.button("Approve").click()
            first.await_text(asked, "dialog pre")
            first.picture("review")
            first.button("Approve and carry out").click()
            own.await_text("done")
            own.go("topics")
            own.await_text(asked)
            own.button("Change").first.click()
            own.field("New partition count").fill("2")
            own.preview()
            own.button("Change the partition count").click()
            own.await_toast("waits for a second principal")
            own.await_text("1", "#pending")
