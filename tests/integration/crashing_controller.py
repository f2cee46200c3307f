"""A controller process that dies, as by ``kill -9``, before the instruction that a file names.

The file holds the label of an instruction (see :func:`label`); it is removed when the process dies of it.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import uvicorn

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.change.protocol import Instruction, Persist
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, Timing, ZooKeeperSettings


def label(instruction: Instruction) -> str:
    """Name of an instruction; that of a Persist with the step it persists."""
    name = type(instruction).__name__
    return f"{name}:{instruction.change.step}" if isinstance(instruction, Persist) else name


def main(
    bootstrap_servers: str,
    zookeeper: str,
    port: int,
    armed: Path,
    session_timeout: float = 1.0,
    drain: float = Timing.drain,
) -> None:
    """Serve until killed; times in seconds."""
    logging.basicConfig(level=logging.INFO)

    def before(instruction: Instruction) -> None:
        if armed.exists() and armed.read_text() == label(instruction):
            armed.unlink()
            os._exit(137)

    url = f"http://127.0.0.1:{port}"
    service = ControllerService(
        ControllerSettings(
            {"bootstrap.servers": bootstrap_servers},
            ZooKeeperSettings(zookeeper, session_timeout=session_timeout),
            url,
            timing=Timing(drain=drain),
        ),
        before=before,
    )
    service.start()
    uvicorn.run(create_app(service), host="127.0.0.1", port=port, log_config=None, access_log=False)
    service.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), *map(float, sys.argv[5:]))
