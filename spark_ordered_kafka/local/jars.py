"""Jars from Maven Central, Apache Kafka's above all, resolved by the Ivy that PySpark ships, kept in a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local.java import classpath, file_names, pyspark_jars
from spark_ordered_kafka.locking import file_lock

KAFKA_VERSIONS = ("4.3.1", "3.9.2")
"""Versions of Apache Kafka that can be started; the first is the default."""

_DOWNLOAD_TIMEOUT = 600.0
_ATTEMPTS = 3

_IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="spark-ordered-kafka" module="local-kafka"/>
  <dependencies>
{dependencies}
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org="{0.org}" name="{0.module}" rev="{0.version}" conf="default->{conf}"/>'


@dataclass(frozen=True)
class Jar:
    """The main jar of a module of Maven Central; ``sha256``: of its bytes, in hex, None where Ivy's own check will do."""

    org: str
    module: str
    version: str
    sha256: str | None = None

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.module}-{self.version}.jar"


@dataclass(frozen=True)
class Download:
    """Jars, with all dependencies where ``conf`` is ``default``, alone where it is ``master``.

    ``title`` is their name in messages, ``name`` their directory in the cache.
    """

    title: str
    name: str
    jars: tuple[Jar, ...]
    conf: str = "default"


def cache_directory() -> Path:
    """``$ORDERED_KAFKA_CACHE``, else ``spark-ordered-kafka`` in ``$XDG_CACHE_HOME`` (else ``~/.cache``).

    Raises:
        ConfigError: the path holds the character that separates the entries of a Java class path, or the user has no home.
    """
    override = os.environ.get("ORDERED_KAFKA_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    given = Path(override) if override else Path(home) / "spark-ordered-kafka"
    try:
        directory = given.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError("ORDERED_KAFKA_CACHE", override, f"give a directory: {error}") from error
    if os.pathsep in str(directory):
        raise ConfigError("ORDERED_KAFKA_CACHE", str(directory), f"give a directory without {os.pathsep!r}")
    return directory


# Kafka logs through slf4j 1.7, for which its own modules bring no binding; the tools of Kafka 3 alone bring one.
SLF4J_BINDING = Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


def kafka_jars(version: str, *, java: str, progress: Callable[[str], None]) -> list[Path]:
    """The jars of a broker of Apache Kafka, about 45 MB; ``version``: one of :data:`KAFKA_VERSIONS`. Else as :func:`cached_jars`."""
    jars = (Jar("org.apache.kafka", "kafka_2.13", version), SLF4J_BINDING)
    return cached_jars(
        Download(f"Apache Kafka {version}", f"kafka-{version}", jars), java=java, progress=progress
    )


def cached_jars(wanted: Download, *, java: str, progress: Callable[[str], None]) -> list[Path]:
    """Jars, downloaded the first time.

    Their directory in the cache appears only when it is complete, so its presence is all there is to check; processes
    that need the same at the same time download it once.

    Args:
        java: path of the ``java`` that runs Ivy.
        progress: called when a download begins and when it is tried again.

    Raises:
        LocalClusterError: the download failed three times, its ``sha256`` differs, or another process has held the cache
            for 10 minutes.
    """
    cache = cache_directory()
    target = cache / wanted.name
    if not target.is_dir():
        lock, what = cache / f"{wanted.name}.lock", f"the cache {cache}"
        with file_lock(lock, timeout=_DOWNLOAD_TIMEOUT, what=what, error=LocalClusterError):
            if not target.is_dir():
                progress(f"Downloading {wanted.title} to {target} (once)")
                _download(wanted, target, java, progress)
    return sorted(target.glob("*.jar"))


def _download(wanted: Download, target: Path, java: str, progress: Callable[[str], None]) -> None:
    for abandoned in target.parent.glob(f".{wanted.name}.*"):
        # Its process was killed, so the lock is free.
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
        # The Ivy cache outlives an attempt, so the next one resumes the download.
        retrying(_retrieve, wanted, retrieved, Path(scratch), java)
        retrieved.rename(target)


def _retrieve(wanted: Download, retrieved: Path, scratch: Path, java: str) -> None:
    shutil.rmtree(retrieved, ignore_errors=True)
    ivy_file = scratch / "ivy.xml"
    dependencies = "\n".join(_DEPENDENCY.format(jar, conf=wanted.conf) for jar in wanted.jars)
    ivy_file.write_text(_IVY_FILE.format(dependencies=dependencies))
    command = [java, "-cp", classpath(pyspark_jars("ivy-*.jar", "commons-cli-*.jar")), "org.apache.ivy.Main"]
    command += ["-warn", "-ivy", str(ivy_file), "-cache", str(scratch / "ivy"), "-confs", "default"]
    command += ["-retrieve", f"{retrieved}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(
            command,
            env=os.environ | file_names(),
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LocalClusterError(
            f"{wanted.title} was not downloaded from Maven Central within {_DOWNLOAD_TIMEOUT:g} s"
        ) from None
    for jar in wanted.jars:
        if done.returncode != 0 or not (retrieved / jar.file_name).is_file():
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise LocalClusterError(
                "\n".join([f"{wanted.title} could not be downloaded from Maven Central:", *lines[-10:]])
            )
        found = hashlib.sha256((retrieved / jar.file_name).read_bytes()).hexdigest()
        if jar.sha256 is not None and found != jar.sha256:
            raise LocalClusterError(
                f"{jar.file_name} of {wanted.title} has the SHA-256 checksum {found}, not {jar.sha256}"
            )
