"""A task where this package is missing, or has another version than the driver's."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

import spark_ordered_kafka
from spark_ordered_kafka.version import __version__
from tests.spark.test_task_imports import UNPICKLED

PACKAGE = Path(spark_ordered_kafka.__file__).parent
UNPICKLE = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)).__name__)"


@pytest.fixture(scope="module")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with this package as a version 0.0.7."""
    home: Path = tmp_path_factory.mktemp("other")
    shutil.copytree(PACKAGE, home / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    # It need not have the modules that this one has.
    (home / PACKAGE.name / "spark" / "address_space.py").unlink()
    (home / PACKAGE.name / "version.py").write_text('__version__ = "0.0.7"\n')
    return home


@pytest.mark.long
@pytest.mark.parametrize("name", ["batch reader", "stream reader", "batch writer", "stream writer"])
def test_readers_and_writers_of_another_version_are_refused(other_version: Path, name: str) -> None:
    same = unpickled(name, PACKAGE.parent)
    assert same.returncode == 0, same.stderr
    refused = unpickled(name, other_version)
    assert refused.returncode == 1
    said = (
        f"ConfigError: spark-ordered-kafka on host {platform.node()} has the value '0.0.7': the driver has"
        f" {__version__}; install the same version on the driver and all executors"
    )
    assert said in refused.stderr.decode()


@pytest.mark.parametrize("name", ["batch reader", "stream reader", "batch writer", "stream writer"])
@pytest.mark.parametrize(
    "missing", ["spark_ordered_kafka", pytest.param("confluent_kafka", marks=pytest.mark.long)]
)
def test_a_package_that_is_missing_is_named(name: str, missing: str) -> None:
    refused = unpickled(name, PACKAGE.parent, f"import sys; sys.modules[{missing!r}] = None; ")
    assert refused.returncode == 1
    said = refused.stderr.decode().splitlines()[-1]
    assert said.startswith(
        f"ImportError: the package spark-ordered-kafka (the driver has {__version__}) cannot be imported on host"
        f" {platform.node()} by {sys.executable}: "
    )
    assert missing in said.removeprefix("ImportError: the package")
    assert "docs/deploy.md" in said


def unpickled(name: str, path: Path, before: str = "") -> subprocess.CompletedProcess[bytes]:
    """What another process says that unpickles what Spark gives a task."""
    return subprocess.run(
        [sys.executable, "-c", before + UNPICKLE],
        input=cloudpickle.dumps(UNPICKLED[name]),  # type: ignore[no-untyped-call]
        env=os.environ | {"PYTHONPATH": str(path)},
        cwd=path,
        capture_output=True,
        timeout=60,
        check=False,
    )
