"""Source and sink through a Spark Connect server: the client has no JVM, and the server no session of the client's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.standalone import SPARK_HOME, await_line, environment
from tests.packaging.requirements import ROOT
from tests.streams import NumberedWriter, change, create, judged, records_in_order

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def connect_url(tmp_path: Path) -> Iterator[str]:
    """Of a server with two local cores."""
    log = tmp_path / "server.log"
    conf = {
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    pairs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    python = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [SPARK_HOME / "sbin" / "start-connect-server.sh", "--master", "local[2]", *pairs],
            env=environment(SPARK_NO_DAEMONIZE="1", SPARK_LOG_DIR=str(tmp_path), **python),
            cwd=tmp_path,
            stdout=out,
            stderr=out,
        )
    try:
        port = await_line(log, r"Spark Connect server started at: \S*?:(\d+)\b", server)
        yield f"sc://127.0.0.1:{port}"
    finally:
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        server.wait(60)


def test_a_stream_and_batches_through_a_connect_server(
    cluster: LocalCluster, connect_url: str, topic_name: str, tmp_path: Path
) -> None:
    """The client runs twice with one checkpoint; source and target grow in between."""
    source, target, batches = (
        create(cluster, f"{topic_name}-{name}", partitions)
        for name, partitions in (("in", 2), ("out", 1), ("batches", 2))
    )
    writer = NumberedWriter(cluster, source)
    topics, checkpoint = (source, target, batches), str(tmp_path / "checkpoint")
    places = [cluster.bootstrap_servers, cluster.controller_url, *topics, checkpoint]

    def run() -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integration.connect_client", connect_url, *places],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found

    writer.write(4)
    first = run()
    assert (first["ended"], first["failure"], first["batch"]) == (True, None, 10)
    assert "startingOffsets has the value 'never'" in str(first["refusal"])
    change(cluster, source, 5)
    change(cluster, target, 3)
    writer.write(4)
    second = run()
    assert (second["ended"], second["failure"], second["batch"]) == (True, None, 20)
    assert second["epochs"] == [0, 1]
    # Each client had a listener of its own, whose query continues at the checkpoint of the first.
    for found, epoch, partitions in ((first, 0, 2), (second, 1, 5)):
        watched = found["watched"]
        assert isinstance(watched, dict)
        assert watched["scraped"]["layout_epoch"] == epoch
        assert watched["scraped"]["partitions"] == partitions
        assert watched["scraped"]["input_rows_total"] > 0, watched
        assert watched["progress"]["offsetsBehindLatest"] == 0
        assert watched["progress"]["topics"][source]["layoutEpoch"] == epoch
        # Spark does not pass the batch on to a write in foreachBatch.
        assert "through Spark Connect none has" in str(found["by name"])
        assert found["in batches"] == ""
    for topic in (target, batches):
        copied = [m for m in records_in_order(cluster, topic) if not (m.value() or b"").startswith(b"batch:")]
        assert judged(copied, writer.written).violations == 0
