"""What deploy/ has for containers works with real servers: two controllers by their configuration, and the health check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import free_port
from tests.servers import TIMEOUT, await_true, unique_name
from tests.test_deploy import CONTROLLERS, DEPLOY


@contextmanager
def started(
    cluster: LocalCluster, command: list[str], chroot: str, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A controller by the command of compose.yaml, at other addresses than those of containers."""
    config = command.index("--config") + 1
    here = [
        *command,
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--zookeeper",
        f"{cluster.zookeeper}/{chroot}",
    ]
    here[config] = str(DEPLOY / "compose" / "controller.toml")
    here[here.index("--port") + 1] = str(port)
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_ordered_kafka.cli", *here],
        env=os.environ | {"ADVERTISED_URL": f"http://127.0.0.1:{port}"},
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        # After an orderly end uvicorn passes the signal on.
        assert process.wait(TIMEOUT) in (0, -signal.SIGTERM)


def is_healthy(url: str) -> bool:
    """What the image's health check says."""
    check = [sys.executable, str(DEPLOY / "healthcheck.py")]
    done = subprocess.run(
        check, env={"HEALTH_URL": f"{url}/healthz"}, capture_output=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


@pytest.mark.long
def test_two_controllers_by_the_files_for_containers(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("compose")
    urls = []
    with ExitStack() as stack:
        for service in CONTROLLERS.values():
            port = free_port()
            urls.append(f"http://127.0.0.1:{port}")
            assert not is_healthy(urls[-1])
            stack.enter_context(started(kafka_cluster, service["command"], chroot, port))
        for url in urls:
            await_true(lambda url=url: is_healthy(url), f"{url} is not healthy", 4 * TIMEOUT)  # type: ignore[misc]

        def roles() -> list[str]:
            answers = [httpx2.get(f"{url}/readyz", timeout=TIMEOUT) for url in urls]
            return sorted(answer.json()["role"] for answer in answers if answer.status_code == 200)

        await_true(lambda: roles() == ["follower", "leader"], "no leader")
        # As Prometheus asks them: by the name of the service.
        for name, url in zip(CONTROLLERS, urls, strict=True):
            answer = httpx2.get(f"{url}/metrics", headers={"Host": f"{name}:8091"}, timeout=TIMEOUT)
            assert "ordered_kafka_controller_is_leader" in answer.text
        assert (
            httpx2.get(f"{urls[0]}/metrics", headers={"Host": "elsewhere"}, timeout=TIMEOUT).status_code
            == 421
        )
