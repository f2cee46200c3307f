"""Logging of the controller's process: every logger has the same handler and format, text or JSON lines.

Each line has the id of its request (``request_id``), in any thread.
"""

from __future__ import annotations

import io
import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from spark_ordered_kafka.parsing import printable

_LIBRARY_LOGGERS = ("kazoo", "kafka", "httpx2", "httpcore2", "httpcore", "asyncio")
"""Logged from WARNING on, at every level: kazoo's details contain its passwords."""


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
    for name in _LIBRARY_LOGGERS:
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
        last += [
            _on_one_line,
            structlog.dev.ConsoleRenderer(
                colors=False, pad_event_to=0, exception_formatter=_indented_traceback
            ),
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)


def _on_one_line(_: object, __: str, event: EventDict) -> EventDict:
    """Escapes names of groups and users, which may hold any character, also line breaks and terminal controls."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _indented_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    """Indents a traceback, so that no line looks like a record: the error's message may have line breaks."""
    whole = io.StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    stream.writelines(f"\n  | {printable(line)}" for line in whole.getvalue().strip().splitlines())
