"""Bytes, rates and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rich.filesize import pick_unit_and_suffix

_SUFFIXES = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
_BASE = 1024


def shown_bytes(count: int) -> str:
    """``1536`` as ``1.5 KiB``; below 1 KiB exactly."""
    if count < _BASE:
        return f"{count} byte{'' if count == 1 else 's'}"
    unit, suffix = pick_unit_and_suffix(count, _SUFFIXES, _BASE)
    return f"{count / unit:,.1f} {suffix}"


def shown_rate(rate: float | None) -> str:
    """Bytes per second; None: no limit."""
    return "none" if rate is None else f"{shown_bytes(round(rate))}/s"


def shown_seconds(seconds: float) -> str:
    """``90`` as ``0:01:30``."""
    try:
        return str(timedelta(seconds=round(seconds)))
    except (ValueError, OverflowError):  # more than a billion days
        return f"{seconds:g} s"


def shown_time(seconds: float) -> str:
    """Seconds since the epoch as a date and time of day."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # before the year 1, or after 9999
        return f"{seconds:g} s since 1970"
