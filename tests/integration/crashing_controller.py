"""A controller process that dies, as by ``kill -9``, before the instruction that a file names.

The file holds the label of an instruction (see :func:`label`), or one of ``RELEASE_STEPS``; it is removed when the process
dies of it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.change.protocol import Instruction, Persist
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, Timing, ZooKeeperSettings

RELEASE_STEPS = {
    "release:record": ("_znodes", "record_leaving"),
    "release:fence": (None, "_fence"),
    "release:end": ("_znodes", "end_release"),
}
"""Calls of the releaser before which the process may die: attribute of the releaser (None: itself) and method."""


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

    def die_of(name: str) -> None:
        if armed.exists() and armed.read_text() == name:
            armed.unlink()
            os._exit(137)

    def before(instruction: Instruction) -> None:
        die_of(label(instruction))

    url = f"http://127.0.0.1:{port}"
    service = ControllerService(
        ControllerSettings(
            {"bootstrap.servers": bootstrap_servers},
            ZooKeeperSettings(zookeeper, session_timeout=session_timeout),
            url,
            timing=Timing(drain=drain),
            # A broker that comes back, or has stood still, may answer late on a busy machine.
            request_timeout=30.0,
        ),
        before=before,
    )
    service.start()
    for name, (owner, method) in RELEASE_STEPS.items():
        target = service.releaser if owner is None else getattr(service.releaser, owner)
        setattr(target, method, partial(_after, partial(die_of, name), getattr(target, method)))
    uvicorn.run(create_app(service), host="127.0.0.1", port=port, log_config=None, access_log=False)
    service.stop()


def _after(first: Callable[[], None], call: Callable[..., Any], *args: Any) -> Any:
    first()
    return call(*args)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), *map(float, sys.argv[5:]))
