"""The jobs under spark-submit, with the properties files that users start from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from spark_ordered_kafka.local import LocalCluster
from tests.integration.test_killed_driver import kill_all

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def properties(job: str) -> dict[str, str]:
    """The entries of the file that is shipped with a job."""
    lines = (ROOT / "conf" / f"{job}.properties").read_text().splitlines()
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value for name, value in pairs}  # noqa: C416 - dict() does not know that they are pairs


def servers(cluster: LocalCluster) -> dict[str, str]:
    """Where source and sink are."""
    return {
        "spark.ordered-kafka.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "spark.ordered-kafka.controller.url": cluster.controller_url,
    }


def command(job: str, conf: Mapping[str, str | None]) -> list[str]:
    """The job with the entries of its shipped properties file; ``conf`` replaces some, and leaves out those of None."""
    servers = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    entries = {
        name: value for name, value in {**servers, **properties(job), **conf}.items() if value is not None
    }
    arguments = [word for name, value in entries.items() for word in ("--conf", f"{name}={value}")]
    spark_submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    return [spark_submit, "--master", "local[2]", *arguments, f"jobs/{job}.py"]


def submit(job: str, conf: Mapping[str, str | None]) -> subprocess.CompletedProcess[str]:
    """Run a job to its end."""
    return subprocess.run(
        command(job, conf),
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@contextmanager
def running(job: str, conf: Mapping[str, str | None], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job while the block runs; every process of it is killed (``kill -9``) at the end of the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(job, conf),
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_all(process)
