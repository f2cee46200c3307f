"""A login with a user and password of Kafka, or with a certificate, at a controller with TLS."""

from __future__ import annotations

import base64

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.web.browsing import Browsing


@pytest.mark.long
def test_a_user_and_password_are_sent_as_http_basic(browsing: Browsing, secure_cluster: LocalCluster) -> None:
    url = secure_cluster.controller_url
    visit = browsing.visit(url, live=False)
    visit.page.get_by_label("User of Kafka").fill("admin")
    visit.page.get_by_label("Password").fill("wröng")
    sent = []
    visit.page.on("request", lambda request: sent.append(request.headers.get("authorization", "")))
    visit.button("Log in").click()
    visit.await_text("not accepted", "main .error")
    expected = base64.b64encode("admin:wröng".encode()).decode()
    assert f"Basic {expected}" in sent
    visit.page.get_by_label("User of Kafka").fill("admin")
    visit.page.get_by_label("Password").fill(secure_cluster.secrets.password("admin"))
    visit.button("Log in").click()
    visit.page.locator("#connection.online").wait_for()
    visit.go("brokers")
    visit.await_text("alive")


@pytest.mark.long
def test_a_client_certificate_needs_no_form(browsing: Browsing, secure_cluster: LocalCluster) -> None:
    secrets = secure_cluster.secrets
    own = (secrets.certificate("admin"), secrets.key("admin"))
    # It is a principal of its own, without rights here.
    visit = browsing.visit(secure_cluster.controller_url, "brokers", live=False, certificate=own)
    visit.await_text("has no right to DESCRIBE on the cluster", "main .note")
    visit.page.locator("#connection.refused").wait_for()
    assert "has no right to DESCRIBE on any topic, nor on the cluster" in visit.text("#banner")
    assert "CN=admin" in visit.text("#caller")
    assert visit.page.get_by_label("Password").count() == 0
    assert visit.button("Log out").count() == 0
