"""Where an extra is not installed: the plain clients and their commands work, and all else says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging.requirements import ROOT, required, with_dependencies

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with this package and what it is installed with when no extra is asked for, and nothing else."""
    return installed(tmp_path_factory.mktemp("plain"))


def installed(directory: Path, *extras: str) -> Path:
    """``directory``, with links to this package and to what it is installed with when some extras are asked for."""
    (directory / "spark_ordered_kafka").symlink_to(ROOT / "spark_ordered_kafka")
    for name in with_dependencies(required(*extras)):
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (directory / top).exists():
                (directory / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    return directory


def run(plain: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python without this environment's own libraries."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=plain,
        env=ENVIRONMENT | {"PYTHONPATH": str(plain), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_plain_clients_need_no_extra(plain: Path) -> None:
    look = """
import importlib.util
from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer, __version__, register
for name in ("pyspark", "pandas", "pyarrow", "fastapi", "kafka", "kazoo", "httpx2", "psutil", "puresasl"):
    assert importlib.util.find_spec(name) is None, name
print(OrderedProducer.__name__)
"""
    done = run(plain, "-c", look)
    assert done.stdout == "OrderedProducer\n", done.stderr


@pytest.mark.parametrize(
    ("code", "extra", "missing"),
    [
        ("import spark_ordered_kafka as k; k.register(None)", "spark", "pyspark, pyarrow"),
        ("import spark_ordered_kafka.spark.datasource", "spark", "pyspark, pyarrow"),
        ("from spark_ordered_kafka.local import LocalCluster", "local", "pyspark, psutil, trustme"),
    ],
)
def test_an_import_says_which_extra_is_missing(plain: Path, code: str, extra: str, missing: str) -> None:
    done = run(plain, "-c", code)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("spark_ordered_kafka.errors.MissingExtraError: ")
    assert missing in last
    assert last.endswith(f"pip install 'spark-ordered-kafka[{extra}]'")


def test_an_extra_that_is_missing_is_an_import_error(plain: Path) -> None:
    """As libraries that can do without Spark expect it."""
    code = "try:\n    import spark_ordered_kafka.spark\nexcept ImportError:\n    print('without')"
    assert run(plain, "-c", code).stdout == "without\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["controller", "run"], "controller"),
        (["local", "up"], "local"),
        (["local", "--help"], "local"),
        (["demo"], "local"),
        (["migrate-checkpoint", "--from=a", "--to=b", "--bootstrap-server=c:1"], "spark"),
    ],
)
def test_a_command_says_which_extra_is_missing(plain: Path, words: list[str], extra: str) -> None:
    done = run(plain, "-m", "spark_ordered_kafka.cli", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith(f"pip install 'spark-ordered-kafka[{extra}]'\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["topics", "alter", "--help"],
        ["reassign", "--help"],
        ["controller", "run", "--help"],
        ["controller", "hash-token", "--principal", "User:ci"],
    ],
)
def test_commands_that_talk_to_a_controller_need_no_extra(plain: Path, words: list[str]) -> None:
    done = run(plain, "-m", "spark_ordered_kafka.cli", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_sasl_to_zookeeper_says_which_extra_it_needs(plain: Path) -> None:
    """The advice to take ZooKeeper's own digest instead works, too."""
    code = """
from spark_ordered_kafka.controller.settings import ZooKeeperSettings
ZooKeeperSettings("zk:2181", digest_username="controller", digest_password="x")
# From Python 3.13 on a traceback shows the source of a program that is given as an argument.
ZooKeeperSettings("zk:2181", sasl_username="controller", sasl_password="hunter" + "2")
"""
    done = run(plain, "-c", code)
    last = done.stderr.splitlines()[-1]
    assert "ConfigError: zookeeper.sasl.username has the value 'controller'" in last
    assert "pip install 'spark-ordered-kafka[zookeeper-sasl]'; or set zookeeper.digest.username" in last
    assert "hunter2" not in done.stderr


def test_a_secured_local_cluster_says_which_extra_it_needs(tmp_path: Path) -> None:
    """And nothing of it has begun: the directory may be that of another cluster."""
    local = installed(tmp_path, "local")
    words = ["local", "up", "--dir", str(tmp_path / "cluster")]
    done = run(local, "-m", "spark_ordered_kafka.cli", *words, "--secure")
    assert done.returncode == 1
    assert done.stderr == (
        "error: a secured local cluster needs puresasl, which is not installed: "
        "pip install 'spark-ordered-kafka[zookeeper-sasl]'\n"
    )
    assert {path.name for path in (tmp_path / "cluster").iterdir()} <= {".lock"}
