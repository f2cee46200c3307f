"""A task of another version of this package than the driver's."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    (home / PACKAGE.name / "version.py").write_text('__version__ = "0.0.7"\n')
    return home


@pytest.mark.parametrize("name", ["batch reader", "stream reader", "batch writer", "stream writer"])
def test_readers_and_writers_of_another_version_are_refused(other_version: Path, name: str) -> None:
    def unpickled(path: Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", UNPICKLE],
            input=pickle.dumps(UNPICKLED[name]),
            env=os.environ | {"PYTHONPATH": str(path)},
            cwd=path,
            capture_output=True,
            timeout=60,
            check=False,
        )

    same = unpickled(PACKAGE.parent)
    assert same.returncode == 0, same.stderr
    refused = unpickled(other_version)
    assert refused.returncode == 1
    said = (
        "ConfigError: spark-ordered-kafka of an executor has the value '0.0.7': the driver has"
        f" {__version__}; install the same version on the driver and all executors"
    )
    assert said in refused.stderr.decode()
