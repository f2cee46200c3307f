"""Finding Java and the jars that PySpark ships."""

from __future__ import annotations

import importlib.util
import locale
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from spark_ordered_kafka.errors import LocalClusterError

MINIMUM_JAVA = 17
"""Oldest Java that Apache Kafka 4 brokers and Spark 4 run on."""

SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
"""Options for short-lived JVMs: they start faster with Java's first compiler alone."""


def find_java() -> str:
    """Path of a ``java`` that is new enough: ``$JAVA_HOME/bin/java``, else the one on ``PATH``.

    Raises:
        LocalClusterError: there is none, it does not run, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"Java {MINIMUM_JAVA} or newer is needed"
    if java is None:
        raise LocalClusterError(f"{needed}, but no java was found on PATH and JAVA_HOME is not set")
    origin = f"JAVA_HOME={home}" if home else "PATH"
    try:
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalClusterError(f"{needed}, but {java} (from {origin}) does not run: {error}") from error
    # 'openjdk version "17.0.15"', and '"1.8.0_402"' up to Java 8.
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found is None or int(found.group(1)) < MINIMUM_JAVA:
        version = found.group(1) if found else repr(shown)
        raise LocalClusterError(f"{needed}, but {java} (from {origin}) is version {version}")
    return java


def file_names() -> dict[str, str]:
    """Environment variables with which Java takes the names of files for what they are in this Python.

    Where the locale is that of C, Python takes them for UTF-8 (PEP 540), and Java for ASCII, which cannot name others.
    """
    differ = sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() != "utf-8"
    return {"LC_ALL": "C.UTF-8"} if differ else {}


def pyspark_jars(*patterns: str) -> list[Path]:
    """The jars in PySpark's ``jars`` directory whose file names match the glob ``patterns``, each at least once.

    Raises:
        LocalClusterError: nothing matches a pattern, as with a PySpark that was installed without its jars.
    """
    # Importing PySpark takes longer than starting ZooKeeper.
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise LocalClusterError("PySpark, whose jars are needed, is not installed")
    directory = Path(package.origin).parent / "jars"
    jars: list[Path] = []
    for pattern in patterns:
        matches = sorted(directory.glob(pattern))
        if not matches:
            raise LocalClusterError(f"PySpark has no {pattern} in {directory}")
        jars += matches
    return jars


def classpath(jars: list[Path]) -> str:
    """The jars as an argument of ``java -cp``."""
    return os.pathsep.join(map(str, jars))
