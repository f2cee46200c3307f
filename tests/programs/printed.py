"""Runs what was printed of a program that breaks a promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_ordered_kafka.local import LocalCluster

_ROOT = Path(__file__).parents[2]


def run_by_itself(cluster: LocalCluster, directory: Path, text: str) -> tuple[str, str]:
    """Paste the code of an error's text into a file and run it; the code, and what it printed."""
    _, _, code = text.partition("\n\n")
    file = directory / "program.py"
    file.write_text(code)
    servers = {
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
        "PYTHONPATH": str(_ROOT),
    }
    command = [sys.executable, str(file)]
    run = subprocess.run(command, env={**os.environ, **servers}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return code, run.stdout
