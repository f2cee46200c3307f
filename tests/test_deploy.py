"""deploy/ fits the product: command lines, ports, paths, configurations, metrics, files."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.controller.config import ControllerConfig, controller_config, read_file
from spark_ordered_kafka.local import KAFKA_VERSIONS
from spark_ordered_kafka.version import __version__
from tests.metric_names import documented, series

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CONTROLLERS = {name: one for name, one in COMPOSE["services"].items() if name.startswith("controller-")}
KUBERNETES = DEPLOY / "kubernetes"
PORT = 8090
_METRIC = re.compile(r"\b(?:ordered_kafka|process|python)_\w+")


def manifests() -> dict[str, Any]:
    """By kind and name."""
    files = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    found = [one for file in files for one in yaml.safe_load_all((KUBERNETES / file).read_text())]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def accepted(command: list[str]) -> bool:
    """Whether the command line has all options of a command, and values for them."""
    assert command[0] == "ordered-kafka"
    return CliRunner().invoke(app, [*command[1:], "--help"]).exit_code == 0


def parsed(file: Path, directory: Path, environment: dict[str, str]) -> ControllerConfig:
    """The configuration as a controller reads it, with what is mounted to /etc/ordered-kafka in ``directory``."""
    here = directory / "controller.toml"
    here.write_text(file.read_text().replace("/etc/ordered-kafka", str(directory)))
    return controller_config(read_file(here, environment), default_host="host.example.com")


def test_every_file_can_be_read() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    for path in files:
        if path.suffix in (".yaml", ".yml"):
            assert list(yaml.safe_load_all(path.read_text())), path
        elif path.suffix == ".json":
            json.loads(path.read_text())
    assert len(files) > 10


def test_a_wrong_option_is_not_accepted() -> None:
    assert not accepted(["ordered-kafka", "controller", "run", "--colour", "red"])
    assert not accepted(["ordered-kafka", "controller", "walk"])


def test_the_unit_starts_the_command_that_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's names have capitals
    unit.read_string((DEPLOY / "systemd" / "ordered-kafka-controller.service").read_text())
    binary, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert binary == "/opt/ordered-kafka/bin/ordered-kafka"
    assert accepted(["ordered-kafka", *arguments])
    assert unit["Service"]["User"] == "ordered-kafka"


def test_the_image_is_made_of_what_there_is() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    entry, command = (
        json.loads(re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[0]) for name in ("ENTRYPOINT", "CMD")
    )
    assert accepted(entry + command)
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert int(user) > 0
    assert re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE) == [str(PORT)]
    assert f"http://127.0.0.1:{PORT}/healthz" in text


def test_compose_names_its_ports_everywhere(tmp_path: Path) -> None:
    assert len(CONTROLLERS) == 2
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    targets = []
    for name, service in CONTROLLERS.items():
        command = service["command"]
        assert accepted(["ordered-kafka", *command])
        port = command[command.index("--port") + 1]
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        environment = service["environment"]
        assert environment["HEALTH_URL"] == f"http://127.0.0.1:{port}/healthz"
        config = parsed(DEPLOY / "compose" / "controller.toml", tmp_path, environment)
        assert config.settings.url == f"http://127.0.0.1:{port}"
        assert name in config.settings.allowed_hosts
        targets.append(f"{name}:{port}")
    assert scraped["static_configs"] == [{"targets": targets}]
    kafka = COMPOSE["services"]["kafka"]
    assert kafka["image"].partition(":")[2] in KAFKA_VERSIONS
    inside = re.findall(r"INSIDE://([\w:]+)", kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    assert inside == [config.settings.kafka["bootstrap.servers"]]
    mounted = [
        volume.partition(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert all((DEPLOY / path).exists() for path in mounted)


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """What the manifests mount to /etc/ordered-kafka."""
    pod = manifests()["StatefulSet/ordered-kafka"]["spec"]["template"]["spec"]
    paths = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert paths["tls"] == "/etc/ordered-kafka/tls"
    secrets, tls = tmp_path / "secrets", tmp_path / "tls"
    for directory in (secrets, tls):
        directory.mkdir()
    certificate = trustme.CA().issue_cert("ordered-kafka.svc")
    certificate.cert_chain_pems[0].write_to_path(tls / "tls.crt")
    certificate.private_key_pem.write_to_path(tls / "tls.key")
    # The keys of the secret, as docs/controllers.md makes it.
    page = (ROOT / "docs" / "controllers.md").read_text()
    for name in re.findall(r"--from-file=([\w.-]+)", page):
        (secrets / name).write_text("secret\n")
    return tmp_path


def test_the_manifests_fit_each_other_and_the_controller(mounts: Path) -> None:
    found = manifests()
    pod = found["StatefulSet/ordered-kafka"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert accepted(["ordered-kafka", *container["args"]])
    config = parsed(
        KUBERNETES / "controller.toml",
        mounts,
        {"POD_NAME": "ordered-kafka-0", "POD_NAMESPACE": "ordered-kafka"},
    )
    headless = found["StatefulSet/ordered-kafka"]["spec"]["serviceName"]
    assert config.settings.url == f"https://ordered-kafka-0.{headless}.ordered-kafka.svc:{PORT}"
    assert found[f"Service/{headless}"]["spec"]["clusterIP"] == "None"
    assert "ordered-kafka.ordered-kafka.svc" in config.settings.allowed_hosts
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"], config.port) == ("https", PORT, PORT)
    for name, path in (
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
        ("startupProbe", "/healthz"),
    ):
        asked = container[name]["httpGet"]
        assert (asked["path"], asked["port"], asked["scheme"]) == (path, "https", "HTTPS")
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    (image,) = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"]
    assert image["newTag"] == __version__


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_them() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, timeout=60, check=True
    )
    objects = list(yaml.safe_load_all(built.stdout))
    kinds = sorted(one["kind"] for one in objects)
    assert kinds == ["ConfigMap", "PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    (stateful,) = (one for one in objects if one["kind"] == "StatefulSet")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    for one in objects:
        selector = one.get("spec", {}).get("selector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            assert wanted, one["kind"]
            assert wanted.items() <= labels.items(), one["kind"]


def rules() -> Iterator[dict[str, Any]]:
    """All alert rules."""
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]:
        yield from group["rules"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where they are, and what they ask Prometheus."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def test_alerts_and_panels_ask_for_metrics_and_labels_that_there_are() -> None:
    known = {name: row for row in documented() for name in series(row)}
    asked = list(expressions())
    assert len(asked) > 40
    for where, expression in asked:
        for name in _METRIC.findall(expression):
            assert name in known or name == "process_resident_memory_bytes", (where, name)
        rows = [known[name] for name in _METRIC.findall(expression) if name in known]
        labels = {label for row in rows for label in row.labels} | {"instance", "job", "le"}
        grouped = [
            name for names in re.findall(r"\bby \(([^)]*)\)", expression) for name in names.split(", ")
        ]
        selected = re.findall(r"[{,](\w+)=", expression)
        assert {*grouped, *selected} <= labels, (where, expression)


def test_every_alert_is_explained_on_the_page() -> None:
    page = (ROOT / "docs" / "controllers.md").read_text()
    table = page[page.index("## Alerts") :]
    for rule in rules():
        assert rule["alert"] in table
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_every_alert_fires_in_a_test() -> None:
    """`make test-all` has promtool run them."""
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())["tests"]
    samples = [
        sample["labels"]
        for test in tests
        for asked in test.get("promql_expr_test", ())
        for sample in asked["exp_samples"]
    ]
    fired = {name for labels in samples for name in re.findall(r'alertname="(\w+)"', labels)}
    assert fired == {rule["alert"] for rule in rules()}
