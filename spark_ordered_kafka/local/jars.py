"""Apache Kafka's jars from Maven Central, resolved by the Ivy that PySpark ships, kept in a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local.java import classpath, pyspark_jars
from spark_ordered_kafka.local.locking import file_lock

KAFKA_VERSIONS = ("4.3.1", "3.9.2")
"""Versions of Apache Kafka that can be started; the first is the default."""

_DOWNLOAD_TIMEOUT = 600.0
_ATTEMPTS = 3

# Kafka logs through slf4j 1.7, for which its own modules bring no binding; the tools of Kafka 3 alone bring one.
_IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="spark-ordered-kafka" module="local-kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="{module}" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True)
class _Download:
    """A module of Apache Kafka with all that it needs; ``title`` is what messages call it, ``name`` its place in the cache."""

    title: str
    name: str
    module: str
    version: str


def cache_directory() -> Path:
    """``$ORDERED_KAFKA_CACHE``, else ``spark-ordered-kafka`` in ``$XDG_CACHE_HOME`` (else ``~/.cache``).

    Raises:
        ConfigError: the path holds the character that separates the entries of a Java class path.
    """
    override = os.environ.get("ORDERED_KAFKA_CACHE")
    if override:
        directory = Path(override).expanduser().absolute()
    else:
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        directory = Path(home).expanduser().absolute() / "spark-ordered-kafka"
    if os.pathsep in str(directory):
        raise ConfigError("ORDERED_KAFKA_CACHE", str(directory), f"give a directory without {os.pathsep!r}")
    return directory


def kafka_jars(version: str, *, java: str, progress: Callable[[str], None]) -> list[Path]:
    """The jars of an Apache Kafka broker, downloaded the first time (about 45 MB).

    The directory ``kafka-<version>`` of the cache appears only when it is complete, so its presence is all there
    is to check; processes that need the same version at the same time download it once.

    Args:
        version: one of :data:`KAFKA_VERSIONS`.
        java: path of the ``java`` that runs Ivy.
        progress: is told when a download begins and when it is tried again.

    Raises:
        LocalClusterError: the download failed three times, or another process has held the cache for 10 minutes.
    """
    wanted = _Download(f"Apache Kafka {version}", f"kafka-{version}", "kafka_2.13", version)
    return _jars(wanted, java, progress)


def tools_jars(version: str, *, java: str, progress: Callable[[str], None]) -> list[Path]:
    """The jars of Apache Kafka's command-line tools, in ``kafka-tools-<version>``; otherwise as :func:`kafka_jars`."""
    wanted = _Download(f"Apache Kafka {version} tools", f"kafka-tools-{version}", "kafka-tools", version)
    return _jars(wanted, java, progress)


def _jars(wanted: _Download, java: str, progress: Callable[[str], None]) -> list[Path]:
    cache = cache_directory()
    target = cache / wanted.name
    if not target.is_dir():
        with file_lock(cache / f"{wanted.name}.lock", timeout=_DOWNLOAD_TIMEOUT, what=f"the cache {cache}"):
            if not target.is_dir():
                progress(f"Downloading {wanted.title} to {target} (once)")
                _download(wanted, target, java, progress)
    return sorted(target.glob("*.jar"))


def _download(wanted: _Download, target: Path, java: str, progress: Callable[[str], None]) -> None:
    for abandoned in target.parent.glob(f".{wanted.name}.*"):
        # Its process was killed: the lock is ours.
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(prefix=f".{wanted.name}.", dir=target.parent) as scratch:
        retrieved = Path(scratch) / "jars"
        retrying = Retrying(
            retry=retry_if_exception_type(LocalClusterError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(multiplier=1, max=10),
            before_sleep=lambda _: progress(f"Downloading {wanted.title} failed; trying again"),
            reraise=True,
        )
        # The Ivy cache outlives an attempt, so that the next one goes on where the last one broke off.
        retrying(_retrieve, wanted, retrieved, Path(scratch), java)
        retrieved.rename(target)


def _retrieve(wanted: _Download, retrieved: Path, scratch: Path, java: str) -> None:
    shutil.rmtree(retrieved, ignore_errors=True)
    ivy_file = scratch / "ivy.xml"
    ivy_file.write_text(_IVY_FILE.format(module=wanted.module, version=wanted.version))
    command = [java, "-cp", classpath(pyspark_jars("ivy-*.jar", "commons-cli-*.jar")), "org.apache.ivy.Main"]
    command += ["-warn", "-ivy", str(ivy_file), "-cache", str(scratch / "ivy"), "-confs", "default"]
    command += ["-retrieve", f"{retrieved}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise LocalClusterError(
            f"{wanted.title} was not downloaded from Maven Central within {_DOWNLOAD_TIMEOUT:g} s"
        ) from None
    for jar in (f"{wanted.module}-{wanted.version}.jar", "log4j-slf4j-impl-*.jar"):
        if done.returncode != 0 or not list(retrieved.glob(jar)):
            told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise LocalClusterError(
                "\n".join([f"{wanted.title} could not be downloaded from Maven Central:", *told[-10:]])
            )
