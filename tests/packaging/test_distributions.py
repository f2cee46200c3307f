"""The wheel, the source distribution and an editable installation, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.version import __version__
from tests.packaging.requirements import ROOT
from tests.servers import unique_name
from tests.streams import create

pytestmark = pytest.mark.timeout(1200)

SHARE = "share/spark-ordered-kafka"
SHIPPED = {
    str(path.relative_to(ROOT))
    for directory in ("conf", "jobs", "deploy")
    for path in (ROOT / directory).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
TIMEOUT = 600.0

CLIENTS = """
import sys
from importlib.util import find_spec
from spark_ordered_kafka import OrderedConsumer, OrderedProducer
for name in ("pyspark", "pandas", "pyarrow", "fastapi", "puresasl"):
    assert find_spec(name) is None, name
servers = {"bootstrap.servers": sys.argv[1], "controller.url": sys.argv[2]}
with OrderedProducer(servers) as producer:
    for number in range(20):
        producer.produce(sys.argv[3], key=f"k{number % 3}", value=str(number))
reading = {"group.id": sys.argv[3], "auto.offset.reset": "earliest"}
with OrderedConsumer(servers | reading) as consumer:
    consumer.subscribe([sys.argv[3]])
    found = []
    while len(found) < 20:
        message = consumer.poll(120.0)
        assert message is not None, found
        found.append(int(message.value()))
for key in range(3):
    assert [number for number in found if number % 3 == key] == [*range(key, 20, 3)]
print("in order")
"""
# Nothing is registered: Spark looks for the format by itself.
SPARK = """
import os, sys, time
from pyspark.sql import SparkSession
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
servers = {"kafka.bootstrap.servers": sys.argv[1], "controller.url": sys.argv[2]}
deadline = time.monotonic() + 120
rows = spark.range(30).selectExpr("concat('k', id % 3) AS key", "CAST(id AS STRING) AS value").coalesce(1)
rows.write.format("ordered-kafka").options(**servers, topic=sys.argv[3]).mode("append").save()
found = 0
# A commit returns before its markers let readers pass.
while found < int(sys.argv[4]) and time.monotonic() < deadline:
    found = spark.read.format("ordered-kafka").options(**servers, subscribe=sys.argv[3]).load().count()
print("rows", found)
"""
TYPED = """
from spark_ordered_kafka import OrderedProducer
producer = OrderedProducer({"bootstrap.servers": "b:1", "controller.url": "http://c:1"})
producer.produce(5)
"""


@dataclass(frozen=True)
class Environment:
    """A fresh environment. What runs in it sees nothing of this project's directory."""

    home: Path

    @classmethod
    def made(cls, home: Path) -> Environment:
        run([sys.executable, "-m", "venv", home / "venv"], home)
        return cls(home)

    def bin(self, name: str) -> Path:
        return self.home / "venv" / "bin" / name

    def install(self, *what: str) -> None:
        run([self.bin("python"), "-m", "pip", "install", "--quiet", *what], self.home)

    def python(self, code: str, *arguments: str) -> str:
        script = self.home / "script.py"
        script.write_text(code)
        return run([self.bin("python"), script, *arguments], self.home)


def run(command: list[str | Path], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this project under version control, as they are now."""
    copy = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return copy


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A source distribution, and the wheel that is made of it."""
    directory = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", directory, tree], directory)
    (wheel,), (source,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": source}


@pytest.fixture
def topic(cluster: LocalCluster) -> list[str]:
    """Addresses, and the name of a new topic of two partitions."""
    name = unique_name("packaged")
    create(cluster, name, 2)
    return [cluster.bootstrap_servers, cluster.controller_url, name]


@pytest.mark.long
def test_what_is_in_them(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        packed = set(wheel.namelist())
    data = f"spark_ordered_kafka-{__version__}.data/data/{SHARE}"
    assert {name for name in packed if name.startswith(data)} == {f"{data}/{name}" for name in SHIPPED}
    assert {"spark_ordered_kafka/py.typed", "pyspark_ordered_kafka.py"} <= packed
    page = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "spark_ordered_kafka" / "controller" / "web").iterdir()
        if path.is_file()
    }
    assert "spark_ordered_kafka/controller/web/app.js" in page
    assert page <= packed
    tops = {name.partition("/")[0] for name in packed}
    assert not tops & {"tests", "benchmarks", "build", "conf", "jobs"}
    with tarfile.open(built["sdist"]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert names >= SHIPPED | page
    assert {"spark_ordered_kafka/native/src/kernel.h", "setup.py", "CHANGELOG.md"} <= names


@pytest.mark.long
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_installation_without_and_with_extras(
    kind: str, built: dict[str, Path], topic: list[str], tmp_path: Path
) -> None:
    environment = Environment.made(tmp_path)
    environment.install(str(built[kind]))
    assert run([environment.bin("ordered-kafka"), "--version"], tmp_path) == f"ordered-kafka {__version__}\n"
    assert environment.python(CLIENTS, *topic) == "in order\n"
    share = tmp_path / "venv" / SHARE
    assert {str(path.relative_to(share)) for path in share.rglob("*") if path.is_file()} >= SHIPPED
    service = share / "jobs" / "balance_service.py"
    assert "--bootstrap-servers" in run([environment.bin("python"), service, "--help"], tmp_path)

    environment.install(f"{built[kind]}[all]")
    assert environment.python(SPARK, *topic, "50") == "rows 50\n"
    found = run([environment.bin("ordered-kafka"), "local", "status", "--help"], tmp_path)
    assert "local status" in found


@pytest.mark.long
def test_the_types_of_an_installed_wheel_are_seen(built: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment.made(tmp_path)
    environment.install("--no-deps", str(built["wheel"]))
    (tmp_path / "typed.py").write_text(TYPED)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--python-executable",
        str(environment.bin("python")),
        "typed.py",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    (error,) = (line for line in done.stdout.splitlines() if line.startswith("typed.py"))
    assert 'Argument 1 to "produce" of "OrderedProducer" has incompatible type "int"' in error


@pytest.mark.long
def test_spark_finds_the_format_of_an_editable_installation(
    tree: Path, topic: list[str], tmp_path: Path
) -> None:
    """By ``pip install --editable`` as it is, without options of setuptools."""
    environment = Environment.made(tmp_path)
    environment.install("--no-deps", "--editable", str(tree))
    # The libraries of this environment: only directories that Python's own start adds have their .pth files read, so that
    # the project's directory is not found by it.
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    found = environment.python("import spark_ordered_kafka; print(spark_ordered_kafka.__file__)")
    assert Path(found.strip()).is_relative_to(tree)
    assert environment.python(SPARK, *topic, "30") == "rows 30\n"
