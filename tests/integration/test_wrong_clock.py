"""A controller whose clock is wrong: the doctor names it, order holds, and one with the right clock takes over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controller_process import running
from tests.integration.controllers import free_port
from tests.servers import TIMEOUT, unique_name
from tests.streams import NumberedWriter, change, create, judged, records_in_order

AHEAD = 600.0
# Of the process alone: clocks that only count, which timeouts go by, are right, as on a machine with a wrong clock.
# Its clock is put right as soon as the file is gone that is named first.
SKEWED = f"""
import os, sys, time
wrong, right = sys.argv.pop(1), time.time
time.time = lambda: right() + ({AHEAD} if os.path.exists(wrong) else 0)
from spark_ordered_kafka.cli import main
main()
"""


def clocks(servers: str, url: str) -> list[dict[str, Any]]:
    """What the doctor says of clocks."""
    words = ["doctor", "--output", "json", "--bootstrap-server", servers, "--controller", url]
    found = json.loads(CliRunner().invoke(app, words).stdout)["findings"]
    return [one for one in found if one["check"] == "clocks"]


@pytest.mark.long
def test_order_holds_and_the_doctor_names_the_clock(kafka_cluster: LocalCluster, tmp_path: Path) -> None:
    """As docs/controllers.md says: look, take the one out of service, let the other lead."""
    is_wrong = tmp_path / "wrong"
    is_wrong.touch()
    chroot, topic = unique_name("clock"), unique_name("timed")
    wrong, right = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}" for port in (wrong, right)]
    servers = kafka_cluster.bootstrap_servers
    where = servers, f"{kafka_cluster.zookeeper}/{chroot}"
    cluster = cast("LocalCluster", SimpleNamespace(bootstrap_servers=servers, controller_url=",".join(urls)))
    with running(*where, wrong, program=["-c", SKEWED, str(is_wrong)]):
        (found,) = clocks(servers, urls[0])
        assert found["status"] == "error"
        assert f"the clock of {urls[0]} is " in found["message"]
        assert "s ahead of this machine's" in found["message"]
        assert "chronyc tracking" in found["advice"]
        create(cluster, topic, 2)
        writer = NumberedWriter(cluster, topic)
        writer.write()
        change(cluster, topic, 3)
        writer.write()
        with running(*where, right):
            found_both = {one["status"] for one in clocks(servers, urls[1])}
            assert found_both == {"ok", "error"}
        # A clock that is put right does not put the controller right.
        is_wrong.unlink()
        (found,) = clocks(servers, urls[0])
        assert found["status"] == "error"
        assert f"the clock of {urls[0]} is right by now" in found["message"]
        # To within what the questions took.
        (ahead,) = re.findall(r"([0-9.]+) s ahead of", found["message"])
        assert float(ahead) == pytest.approx(AHEAD, abs=10.0)
        assert "start that controller again" in found["advice"]
    # Both have ended; the right one comes back alone.
    with running(*where, right):
        writer.write()
        change(cluster, topic, 5)
        writer.write()
        change(cluster, topic, 2)
        writer.write()
        (found,) = clocks(servers, urls[1])
        assert found["status"] == "ok"
        layouts = httpx2.get(f"{urls[1]}/v1/topics/{topic}/layout", timeout=TIMEOUT).json()["layouts"]
        times = [one["committed_at"] for one in layouts]
        assert times != sorted(times), "the first layouts are of the clock that was ahead"
        report = judged(records_in_order(cluster, topic), writer.written)
        assert report.violations == 0, report
