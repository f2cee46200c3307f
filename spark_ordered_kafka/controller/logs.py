"""Logs of the controller's process: every library's go the same way, as text or as JSON lines.

Whatever a request does is logged with its id (``request_id``), in whichever thread it is done.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import Processor

_QUIET = ("kazoo", "kafka", "httpx", "httpcore", "asyncio")
"""Told only when something is wrong, at every level: what kazoo says in detail has its passwords in it."""


def configure_logging(
    level: str, log_format: Literal["text", "json"] = "text", stream: TextIO | None = None
) -> None:
    """Let all loggers of this process write to ``stream``, stderr by default, one line per record.

    Args:
        level: DEBUG, INFO, WARNING or ERROR.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter(log_format))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def formatter(log_format: Literal["text", "json"]) -> logging.Formatter:
    """Writes a record with its time (UTC), the fields bound to its request and those given as ``extra``."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if log_format == "json":
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last.append(
            structlog.dev.ConsoleRenderer(
                colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            )
        )
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)
