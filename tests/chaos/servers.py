"""A cluster of its own for histories that kill: one broker, one ZooKeeper server, two controllers."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.ports import free_ports
from tests.servers import TIMEOUT, transaction_states, unique_name

SESSION_TIMEOUT = 1.5
# Several processes start at the same time.
START_TIMEOUT = 120.0
PATIENCE = 90.0
"""Seconds after which something that must happen by itself counts as never happening."""
DRAIN = 0.5
"""Seconds. Shorter than a controller's defaults, so that a history with a takeover still takes a few seconds."""

_AnyT = TypeVar("_AnyT")


class ControllerProcess:
    """A controller that can be told to die before an instruction of a change."""

    def __init__(self, command: list[str], url: str, directory: Path) -> None:
        self.url = url
        self.armed = directory / "armed"
        self._command = [*command, url.rsplit(":", 1)[1], str(self.armed), str(SESSION_TIMEOUT), str(DRAIN)]
        self._log = directory / "controller.log"
        self._process: psutil.Popen | None = None

    def ensure_running(self) -> None:
        """Start it if it does not run; does not wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        with self._log.open("ab") as log:
            self._process = psutil.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(TIMEOUT)

    def pause(self) -> None:
        assert self._process is not None
        self._process.suspend()

    def resume(self) -> None:
        assert self._process is not None
        self._process.resume()

    def is_active(self) -> bool:
        """Whether it answers as the leader."""
        try:
            answer = httpx2.get(f"{self.url}/readyz", timeout=2.0, trust_env=False)
        except httpx2.TransportError:
            return False
        return answer.is_success and answer.json()["role"] == "leader"


class ChaosCluster(LocalCluster):
    """Servers for histories. ``controller_url`` names both controllers; one of them is active.

    ``replication``: fields of a topic's creation, so that its records outlive the death of one of several brokers.
    """

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        super().__init__(directory, controllers=0, brokers=brokers)
        self.controllers: list[ControllerProcess] = []
        self.is_single_broker = brokers == 1
        self.replication: dict[str, Any] = {
            "replication_factor": brokers,
            "configs": {"min.insync.replicas": str(max(1, brokers - 1))},
        }

    def __enter__(self) -> ChaosCluster:
        self.up()
        return self

    def up(self) -> dict[str, Any]:
        description = super().up()
        chroot = f"{self.zookeeper}/{unique_name('chaos')}"
        module = [sys.executable, "-m", "tests.integration.crashing_controller"]
        command = [*module, self.bootstrap_servers, chroot]
        ports = free_ports(set(), random.Random())
        for number, port in zip((1, 2), ports, strict=False):
            home = self.directory / f"chaos-controller-{number}"
            home.mkdir()
            self.controllers.append(ControllerProcess(command, f"http://127.0.0.1:{port}", home))
        self.ensure_controllers()
        self.await_controller()
        return description

    def down(self) -> list[str]:
        for controller in self.controllers:
            controller.kill()
        return super().down()

    @property
    def controller_url(self) -> str:
        return ",".join(controller.url for controller in self.controllers)

    def ensure_controllers(self) -> None:
        """Start the controllers that have died."""
        for controller in self.controllers:
            controller.ensure_running()

    def await_controller(self) -> ControllerProcess:
        """The active controller, waited for."""
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            for controller in self.controllers:
                if controller.is_active():
                    return controller
            assert time.monotonic() < deadline, f"no controller became active within {START_TIMEOUT:g} s"
            time.sleep(0.05)

    def retried(self, call: Callable[[], _AnyT]) -> _AnyT:
        """The call's result, as soon as a controller answers."""
        retrying = Retrying(
            stop=stop_after_delay(PATIENCE),
            wait=wait_fixed(0.05),
            retry=retry_if_exception(lambda error: isinstance(error, OrderedKafkaError) and error.retriable),
            before_sleep=lambda _: self.ensure_controllers(),
            reraise=True,
        )
        return retrying(call)

    def await_markers(self, prefix: str) -> None:
        """Wait until no transaction of the ids with ``prefix`` is half ended.

        A broker that comes back alone skips the markers of such a one: its partitions have no leader yet, and Kafka
        4.3 takes them for deleted ("Couldn't find leader endpoint for partitions ..."). That transaction then hangs for
        ever, which is no fault of this package and nothing that it could mend.
        """
        admin = KafkaAdmin(self.bootstrap_servers, timeout=TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        try:
            while True:
                found = transaction_states(Fencer(admin), prefix, deadline)
                if not any(state.startswith("Prepare") for state in found.values()):
                    return
                assert time.monotonic() < deadline, f"transactions do not end: {found}"
                time.sleep(0.02)
        finally:
            admin.close()


@contextmanager
def paused(pause: Callable[[], object], resume: Callable[[], object]) -> Iterator[None]:
    """Let a server stand still."""
    pause()
    try:
        yield
    finally:
        resume()


def hanging(cluster: LocalCluster) -> AbstractContextManager[None]:
    """Let the only broker stand still: it keeps its connections and answers nothing."""
    return paused(lambda: cluster.pause("broker-1"), lambda: cluster.resume("broker-1"))
