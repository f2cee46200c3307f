"""Spark conf that a session does not read (D-252).

The process in which Spark plans with a data source written in Python is given no conf. What was set when Spark was launched
(``--conf``, ``SparkSession.builder.config``, a properties file) is on the command line of the JVM that started the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

_JVM = "org.apache.spark."
# The worker, the daemon that it was forked from, the JVM.
_MOST_PARENTS = 4


def names_at_launch(prefix: str) -> list[str]:
    """Names in Spark conf that begin with ``prefix``, of the JVM that started this process; none where there is none, or
    where the system does not show its command line."""
    try:
        for process in psutil.Process().parents()[:_MOST_PARENTS]:
            words = process.cmdline()
            if any(word.startswith(_JVM) for word in words):
                return sorted(set(_names(words, Path(process.cwd()), os.environ, prefix)))
    except psutil.Error:
        return []
    return []


def _names(
    words: Sequence[str], directory: Path, environment: Mapping[str, str], prefix: str
) -> Iterator[str]:
    """Of the command line ``words`` of a JVM that runs in ``directory``."""
    files = []
    for option, value in pairwise(words):
        if option in ("--conf", "-c") and value.startswith(prefix):
            yield value.partition("=")[0]
        elif option == "--properties-file":
            files.append(directory / value)
    # spark-submit reads the defaults where there is no other file.
    files = files or list(_defaults(environment))
    for file in files:
        if file.is_file():
            yield from re.findall(
                rf"^\s*({re.escape(prefix)}[^\s=:]+)", file.read_text(errors="replace"), re.MULTILINE
            )


def _defaults(environment: Mapping[str, str]) -> Iterator[Path]:
    if "SPARK_CONF_DIR" in environment:
        yield Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    elif "SPARK_HOME" in environment:
        yield Path(environment["SPARK_HOME"]) / "conf" / "spark-defaults.conf"
