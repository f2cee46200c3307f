"""deploy/prometheus and deploy/grafana in a real Prometheus, which scrapes a controller. `make prometheus` installs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient, NewPartitions

from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, free_port, served
from tests.metric_names import documented, series
from tests.servers import TIMEOUT, await_true

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
_FETCHED = ROOT / "build" / "prometheus" / "usr" / "bin"
_SCRAPE = "1s"
# Seconds; a scrape that takes longer than its interval, on a busy machine, counts for nothing.
LONG = 120.0


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(_FETCHED))
    assert found is not None, f"{name} is missing: make prometheus"
    return found


def names(rules: dict[str, Any]) -> list[str]:
    return [rule["alert"] for group in rules["groups"] for rule in group["rules"]]


def test_alerts_fire_when_they_should() -> None:
    command = [tool("promtool"), "test", "rules", "alerts_test.yml"]
    done = subprocess.run(
        command, cwd=ALERTS.parent, capture_output=True, text=True, check=False, timeout=LONG
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_see_the_first_event_of_a_counter(tmp_path: Path) -> None:
    """A counter with labels begins with its first event, and increase() alone sees only further ones."""
    counters = {name: row for row in documented() if row.labels for name in series(row)}
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    tests = []
    for expression in asked:
        (name,) = set(re.findall(r"increase\((\w+)\[", expression)) or {None}
        if name not in counters:
            continue
        labels = ", ".join(f'{label}="a"' for label in sorted(counters[name].labels))
        grouped = re.findall(r"^sum by \(([^)]*)\)", expression)
        shown = ", ".join(f'{label}="a"' for names in grouped for label in names.split(", "))
        one, two = ({"series": f'{name}{{instance="{which}", {labels}}}'} for which in ("one", "two"))
        tests.append(
            {
                "interval": "1m",
                # One has counted for days, the other had its first event five minutes ago.
                "input_series": [one | {"values": "7x2000"}, two | {"values": "_x1994 5x5"}],
                "promql_expr_test": [
                    {
                        "expr": expression,
                        "eval_time": "2000m",
                        "exp_samples": [{"labels": f"{{{shown}}}", "value": 5}],
                    }
                ],
            }
        )
    assert len(tests) == 5
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
    command = [tool("promtool"), "test", "rules", str(tmp_path / "panels.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A server with the rules of deploy/, which wait for a second instead of minutes."""

    def __init__(self, directory: Path, target: str) -> None:
        self._port = free_port()
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": _SCRAPE, "evaluation_interval": _SCRAPE}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        (directory / "alerts.yml").write_text(re.sub(r"for: \w+", "for: 1s", ALERTS.read_text()))
        self._process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(directory / "log").open("w"),
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT)

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx2.get(
            f"http://127.0.0.1:{self._port}/api/v1/{path}", params=query, trust_env=False, timeout=TIMEOUT
        )
        document = answer.json()
        assert document["status"] == "success", (path, query, document)
        return document["data"]

    def is_ready(self) -> bool:
        try:
            begun = httpx2.get(f"http://127.0.0.1:{self._port}/-/ready", trust_env=False, timeout=TIMEOUT)
        except httpx2.TransportError:
            return False
        return begun.is_success and any(one["health"] == "up" for one in self.ask("targets")["activeTargets"])

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        return {rule["name"] for rule in self.rules() if rule["state"] == "firing"}


@contextmanager
def scraping(directory: Path, port: int) -> Iterator[Prometheus]:
    server = Prometheus(directory, f"127.0.0.1:{port}")
    try:
        await_true(server.is_ready, "Prometheus has no metrics of the controller", LONG)
        await_true(
            lambda: all(rule["health"] == "ok" for rule in server.rules()), "rules are not evaluated", LONG
        )
        yield server
    finally:
        server.stop()


def test_a_real_prometheus_takes_the_rules_and_the_panels(
    controller: InProcess, cluster: LocalCluster, tmp_path: Path
) -> None:
    port = free_port()
    with served(controller, port), scraping(tmp_path, port) as prometheus:
        judge(prometheus, controller, cluster)


def judge(prometheus: Prometheus, controller: InProcess, cluster: LocalCluster) -> None:
    topic = controller.create(1)
    assert controller.alter(topic, 2).error == "NONE"
    assert {rule["name"] for rule in prometheus.rules()} == set(names(yaml.safe_load(ALERTS.read_text())))
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    for expression in asked:
        prometheus.ask("query", query=expression.replace("$__rate_interval", "1m"))
    assert len(asked) > 20
    done = 'sum(ordered_kafka_changes_total{kind="expand",outcome="done"}) > 0'
    await_true(lambda: bool(prometheus.ask("query", query=done)["result"]), "the change is not counted", LONG)
    assert "OrderedKafkaStrayPartitions" not in prometheus.firing()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT)

    def is_told() -> bool:
        (rule,) = (rule for rule in prometheus.rules() if rule["name"] == "OrderedKafkaStrayPartitions")
        return rule["state"] == "firing" and topic in rule["alerts"][0]["annotations"]["summary"]

    await_true(is_told, "added partitions raise no alert with the topic's name", LONG)


def test_alerts_of_controllers_that_are_gone(controller: InProcess, tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as stack:
        with served(controller, port):
            server = stack.enter_context(scraping(tmp_path, port))
            # Before the first samples nobody leads.
            await_true(
                lambda: not server.firing() & {"OrderedKafkaControllerDown", "OrderedKafkaNoLeader"},
                "there is a leader, and an alert",
                LONG,
            )
        await_true(
            lambda: server.firing() >= {"OrderedKafkaControllerDown", "OrderedKafkaNoLeader"},
            "a controller that is gone raises no alert",
            LONG,
        )
