"""The machine of a run, and the versions of what is compared."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import confluent_kafka
import psutil

from spark_ordered_kafka.local.jars import KAFKA_VERSIONS
from spark_ordered_kafka.native.loading import kernel

_PACKAGES = ("pyspark", "pyarrow", "confluent-kafka", "kafkarrow")


def description() -> dict[str, str]:
    """What a reader of figures must know, by name."""
    packages = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Kafka": f"{KAFKA_VERSIONS[0]}, one broker on the same machine",
        **packages,
        "librdkafka": confluent_kafka.libversion()[0],
        "native kernel": "no" if kernel() is None else "yes",
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        for line in cpus.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
