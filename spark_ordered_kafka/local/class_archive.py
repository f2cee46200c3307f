"""An archive of Kafka's loaded classes, with which its JVMs start in half the processor time (Java's AppCDS, JEP 310 and 350)."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local import readiness, servers
from spark_ordered_kafka.local.java import file_names
from spark_ordered_kafka.local.plan import Parameters, new_state
from spark_ordered_kafka.local.ports import free_ports
from spark_ordered_kafka.locking import file_lock

_SCRATCH = ".classes."
_TIMEOUT = 120.0
"""Seconds for the broker whose classes are archived to start, and to write them when it ends."""


def sharing(
    java: str, jars: Sequence[Path], version: str, *, progress: Callable[[str], None]
) -> tuple[str, ...]:
    """JVM options that use the archive beside the ``jars`` of this version of Kafka; the first time a broker runs to make it.

    No options where the directory cannot be written, or this Java makes no archive: it only saves time.

    Raises:
        LocalClusterError: another process has held the cache for several minutes.
    """
    directory = jars[0].parent
    archive = directory / f"classes-{_digest(java, jars)}.jsa"
    if not archive.exists():
        if not os.access(directory, os.W_OK):
            return ()
        lock, what = directory.parent / f"{directory.name}.lock", f"the cache {directory.parent}"
        with file_lock(lock, timeout=3 * _TIMEOUT, what=what, error=LocalClusterError):
            if not archive.exists():
                progress("Preparing quick starts of Kafka (once)")
                try:
                    _make(java, jars, version, archive)
                except (LocalClusterError, OSError, subprocess.SubprocessError) as error:
                    progress(f"Quick starts of Kafka could not be prepared, and are next time: {error}")
                    return ()
    # An empty file stands for a Java that makes no archive.
    return (f"-XX:SharedArchiveFile={archive}",) if archive.stat().st_size else ()


def _digest(java: str, jars: Sequence[Path]) -> str:
    """Another one for another Java or other jars, whose archive the JVM would not take."""
    program = Path(java).resolve()
    parts = [str(program), str(program.stat().st_mtime_ns), *map(str, jars)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _make(java: str, jars: Sequence[Path], version: str, archive: Path) -> None:
    for abandoned in archive.parent.glob(f"{_SCRATCH}*"):
        # Its process was killed, so the lock is free.
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=archive.parent) as scratch:
        directory = Path(scratch)
        dumped = directory / "classes.jsa"
        state = new_state(Parameters(kafka_version=version), free_ports(set(), random.Random()))
        (broker,) = state.of("broker")
        config = servers.write_kafka_config(directory, state, broker)
        tool = servers.storage_tool_command(java, jars, config, state.cluster_id)
        environment = os.environ | file_names()
        subprocess.run(tool, env=environment, check=True, capture_output=True, timeout=_TIMEOUT)
        jvm = ("-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={dumped}")
        command = servers.kafka_command(java, jars, config, jvm)
        with (
            servers.server_log(directory, broker).open("wb") as log,
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            ) as process,
        ):
            try:
                _await_start(process, broker.address, broker.id)
                process.terminate()
                process.wait(_TIMEOUT)
            finally:
                process.kill()
        dumped.touch()
        for outdated in archive.parent.glob("classes-*.jsa"):
            outdated.unlink()
        dumped.rename(archive)


def _await_start(process: subprocess.Popen[bytes], address: str, broker: int) -> None:
    def check() -> None:
        if process.poll() is not None:
            raise LocalClusterError(f"a broker ended with {process.returncode} while it was starting")

    with readiness.broker_serves({"bootstrap.servers": address}, {broker}) as serves:
        otherwise = f"a broker at {address} is not ready after {_TIMEOUT:g} s"
        readiness.wait_until(serves, timeout=_TIMEOUT, otherwise=lambda: otherwise, check=check)
