"""Source and sink under settings of Spark that users change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.servers import unique_name
from tests.streams import create, judged, raw_records, written_through

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
ARROW = "spark.sql.execution.arrow"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "as they are": {},
    "a worker for each task": {"spark.python.worker.reuse": "false"},
    "workers without a daemon": {"spark.python.use.daemon": "false"},
    "few idle workers": {"spark.python.factory.idleWorkerMaxPoolSize": "1"},
    # They answer within seconds, also on busy processors.
    "workers killed that do not answer": {
        "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "30",
        "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
    },
    "1 GiB of address space": {"spark.executor.pyspark.memory": "1g"},
    "small Arrow batches": {f"{ARROW}.maxRecordsPerBatch": "7"},
    "Arrow batches of few bytes": {f"{ARROW}.maxBytesPerBatch": "1000"},
    "large types": {f"{ARROW}.useLargeVarTypes": "true"},
    "compressed Arrow batches": {f"{ARROW}.compression.codec": "zstd"},
    "small buffers": {"spark.buffer.size": "1024", "spark.sql.execution.pandas.udf.buffer.size": "16"},
    "sockets of files": {"spark.python.unix.domain.socket.enabled": "true"},
    "encrypted": {"spark.io.encryption.enabled": "true"},
    "profiled": {"spark.sql.pyspark.dataSource.profiler": "perf"},
    "filters pushed down": {"spark.sql.python.filterPushdown.enabled": "true"},
    "neither code nor plans adapted": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    },
    "names and numbers as before": {"spark.sql.caseSensitive": "true", "spark.sql.ansi.enabled": "false"},
    "another time zone": {"spark.sql.session.timeZone": "Asia/Kathmandu"},
    "one batch kept": {
        "spark.sql.streaming.minBatchesToRetain": "1",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    },
    "one core": {"spark.master": "local[1]"},
    "eight tasks at once": {"spark.master": "local[8]"},
    "fair": {"spark.scheduler.mode": "FAIR"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_topic_is_copied_in_order(
    cluster: LocalCluster, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    source, by_batch, by_stream = (unique_name(name) for name in ("settings", "by-batch", "by-stream"))
    writer = written_through(cluster, source, 2, 4, 3, keys=50)
    arguments = [source, create(cluster, by_batch, 3), create(cluster, by_stream, 3), str(tmp_path)]
    servers = [cluster.bootstrap_servers, cluster.controller_url]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.integration.settings_driver",
            *servers,
            *arguments,
            json.dumps(settings),
        ],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"},
        timeout=500,
        check=True,
    )
    for target in (by_batch, by_stream):
        assert judged(raw_records(cluster, target, 3), writer.written).violations == 0
