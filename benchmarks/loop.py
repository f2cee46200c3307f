"""The loop in C, compiled when it is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from confluent_kafka import cimpl

SOURCE = Path(__file__).parent / "consume.c"

_TIMEOUT = 120.0


def compiled(directory: Path) -> Path | None:
    """The program, made in a directory; None where there is no C compiler.

    Raises CalledProcessError where it does not compile.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = directory / "consume"
    subprocess.run([compiler, "-std=c11", "-O3", "-o", program, SOURCE, "-ldl"], check=True)
    return program


def librdkafka() -> str:
    """Path of the shared library that confluent-kafka has loaded in this process; that of its extension where it has it inside."""
    mapped = Path("/proc/self/maps")
    found = re.search(r"\S*/librdkafka[^/\s]*\.so\S*", mapped.read_text()) if mapped.exists() else None
    return str(cimpl.__file__) if found is None else found.group()


def rate(program: Path, bootstrap_servers: str, topic: str, partitions: int, records: int) -> float:
    """Records per second of a topic, read from offset 0, after the first tenth or 10,000 of them.

    Raises CalledProcessError when they do not come.
    """
    arguments = [librdkafka(), bootstrap_servers, topic, str(partitions), str(records)]
    done = subprocess.run(
        [program, *arguments], stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT, check=True
    )
    count, seconds = done.stdout.split()
    return int(count) / float(seconds)
