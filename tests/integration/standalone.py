"""Spark's own standalone cluster on this machine: a master and workers as processes, which know nothing of this project.

A node has Spark, and a Python with what images for PySpark have (pyarrow, pandas). The package, and what it needs, reach
executors only by what an application ships.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path

import psutil
import pyspark

from tests.packaging.requirements import ROOT, required, with_dependencies

SPARK_HOME = Path(pyspark.__file__).parent
ARCHIVED = "packages"
"""The directory that an executor unpacks the archive to."""

UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
"""A process that is started by it has mounts of its own."""
_WITH_A_DISK = 'mount -t tmpfs apart "$1" && shift && exec "$@"'

_IN_IMAGES = ("pyarrow", "pandas")
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DEADLINE = 300.0
_KEPT = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "LANG")


def environment(**more: str) -> dict[str, str]:
    """Of a process that inherits nothing of this project: no PYTHONPATH, no virtual environment."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"} | more


def node_python(directory: Path) -> Path:
    """A Python with what images for PySpark have; makes it in ``directory``."""
    venv.create(directory, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    _link(directory / "lib" / version / "site-packages", with_dependencies(_IN_IMAGES))
    return directory / "bin" / "python"


def package_directory(directory: Path) -> Path:
    """``directory``, with the package and what it needs beyond a node's Python, as ``pip install --target`` makes it."""
    directory.mkdir()
    for name in ("spark_ordered_kafka", "pyspark_ordered_kafka.py"):
        (directory / name).symlink_to(ROOT / name)
    _link(directory, with_dependencies(required("spark")) - with_dependencies((*_IN_IMAGES, "pyspark")))
    return directory


def archive(directory: Path) -> Path:
    """The files of a package directory, and not links to them, in a tar beside it.

    Without an entry ``./``, for which Spark refuses the archive.
    """
    file = directory.with_suffix(".tar")
    with tarfile.open(file, "w", dereference=True) as tar:
        for path in directory.iterdir():
            tar.add(path, path.name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return file


def _link(directory: Path, distributions: Collection[str]) -> None:
    for name in distributions:
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (directory / top).exists():
                (directory / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))


def daemon_variables(directory: Path) -> dict[str, str]:
    """Environment variables of a master or worker that keeps its files in ``directory``, beside those that Spark needs."""
    return {"SPARK_LOCAL_DIRS": str(directory / "local"), "SPARK_DAEMON_MEMORY": "256m"}


def master_command(host: str, port: int) -> list[str]:
    """Runs a master; of port 0, at any free one."""
    return _daemon("master.Master", host, port)


def worker_command(host: str, directory: Path, master: str) -> list[str]:
    """Runs a worker with one core, which keeps its applications in ``directory``. ``master``: URL."""
    resources = ("--cores", "1", "--memory", "700m", "--work-dir", str(directory))
    return [*_daemon("worker.Worker", host, 0), *resources, master]


def _daemon(main: str, host: str, port: int) -> list[str]:
    listens = ("--host", host, "--port", str(port), "--webui-port", "0")
    return [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *listens]


class Worker:
    """A worker process, and its executors."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self.directory = directory
        self.process = process

    def executors(self) -> dict[str, psutil.Process]:
        """Live executors by id."""
        if self.process.poll() is not None:
            return {}
        found = {}
        for process in psutil.Process(self.process.pid).children():
            try:
                words = process.cmdline()
                if _EXECUTOR in words:
                    found[words[words.index("--executor-id") + 1]] = process
            except psutil.NoSuchProcess:
                continue
        return found

    def mapped_files(self) -> set[Path]:
        """What the Python processes of the executors have mapped: among others, where their extension modules lie."""
        found: set[Path] = set()
        for executor in self.executors().values():
            with suppress(psutil.NoSuchProcess):
                for child in executor.children(recursive=True):
                    # One that ends meanwhile says nothing of the others.
                    with suppress(psutil.NoSuchProcess):
                        found |= {Path(entry.path) for entry in child.memory_maps()}
        return found


class Standalone:
    """A running master and its workers."""

    def __init__(self, directory: Path, python: Path) -> None:
        self.python = python
        self._directory = directory
        self._stack = ExitStack()
        self.workers: list[Worker] = []
        self.url = ""

    def __enter__(self) -> Standalone:
        with ExitStack() as stack:
            self._stack = stack
            master = self._start("master", master_command("127.0.0.1", 0))
            log = self._directory / "master" / "log"
            self.url = await_line(log, r"Starting Spark master at (spark://\S+)", master)
            self._stack = stack.pop_all()
        return self

    def add_worker(self, hidden: Path | None = None, host: str = "127.0.0.1") -> Worker:
        """One more worker, with one core, in a directory of its own; in place of ``hidden`` it has an empty disk of its own.

        Spark runs a copy of a task on another host only, which any ``host`` of 127.0.0.0/8 is to it.
        """
        name = f"worker-{len(self.workers)}"
        directory = self._directory / name
        apart = () if hidden is None else [*UNSHARE, "sh", "-c", _WITH_A_DISK, "sh", str(hidden)]
        process = self._start(name, [*apart, *worker_command(host, directory, self.url)])
        await_line(directory / "log", "(Successfully registered) with master", process)
        worker = Worker(directory, process)
        self.workers.append(worker)
        return worker

    def _start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        directory = self._directory / name
        directory.mkdir()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment(**daemon_variables(directory)),
                stdout=log,
                stderr=log,
            )
        self._stack.callback(_end, process)
        return process

    @contextmanager
    def submitted(
        self, log: Path, packages: Path | None, conf: Mapping[str, str], *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """spark-submit with this cluster as its master; the driver has ``packages`` on its path, and is ended with the block."""
        given = {
            "spark.pyspark.python": str(self.python),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        } | dict(conf)
        pairs = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
        path = {} if packages is None else {"PYTHONPATH": str(packages)}
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as out:
            process = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-submit", "--master", self.url, *pairs, *arguments],
                cwd=log.parent,
                env=environment(**path),
                stdout=out,
                stderr=out,
            )
        try:
            yield process
        finally:
            _end(process)

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def await_line(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """The group of the first match of ``pattern`` in a log; fails when its process ends or nothing comes."""
    deadline = time.monotonic() + _DEADLINE
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, f"no {pattern!r} in {log} within {_DEADLINE:g} s"
        # Not a wait for an event: it bounds how often a file is read.
        time.sleep(0.05)
    return found.group(1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it has started and leaves behind."""
    if process.poll() is not None:
        return
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)
    for child in psutil.wait_procs(family, 30)[1]:
        child.kill()
