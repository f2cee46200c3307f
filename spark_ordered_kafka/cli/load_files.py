"""Loads for ``ordered-kafka autoscale simulate``: CSV files, and shapes such as ``0:1MB,1h:20MB``."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from spark_ordered_kafka.cli.times import epoch_seconds
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import raise_all

COLUMNS = ("time", "bytes_per_second", "records_per_second", "hot_key_share")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_POINT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?):([0-9]+(?:\.[0-9]+)?)(B|kB|MB|GB|KiB|MiB|GiB)")
_SHAPE_HINT = "points TIME:RATE in order of time are needed, with s, m, h or d and with B, kB, MB or GB per second, as in 0:1MB,1h:20MB"
# A Monday, 00:00 UTC, since quiet hours go by the day of the week.
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_MOST = 1e18
_SHOWN = 60

Point = tuple[float, float, float, float]
"""Seconds since the epoch, bytes and records per second, and the hot key's share."""


def from_shape(text: str, record_size: int) -> list[Point]:
    """The points of a shape, from a Monday at 00:00 UTC on. Raises ConfigError."""
    points: list[Point] = []
    for part in text.split(","):
        found = _POINT.fullmatch(part.strip())
        if found is None:
            raise ConfigError("--shape", part, _SHAPE_HINT)
        at = _BEGIN + float(found[1]) * _UNITS[found[2]]
        rate = float(found[3]) * _SIZES[found[4]]
        if at > _LATEST or rate >= _MOST:
            raise ConfigError("--shape", part[:_SHOWN], f"it is too large; {_SHAPE_HINT}")
        points.append((at, rate, rate / record_size, 0.0))
    return _in_order("--shape", text, points)


def from_csv(path: Path, record_size: int) -> list[Point]:
    """The rows of a CSV file with a line of names. Raises the ConfigErrors of the first wrong rows."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            unknown = [name for name in names if name not in COLUMNS]
            repeated = len(set(names)) < len(names)
            if unknown or repeated or not {"time", "bytes_per_second"} <= set(names):
                hint = f"its first line must have time and bytes_per_second, and may have {' and '.join(COLUMNS[2:])}, each once"
                raise ConfigError("--load", str(path), hint)
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError("--load", str(path), f"cannot be read: {error}") from error
    points, errors = [], []
    for line, row in enumerate(rows, 2):
        try:
            points.append(_row(f"--load, line {line}", row, record_size))
        except ConfigError as error:
            errors.append(error)
    raise_all(errors[:10])
    return _in_order("--load", str(path), points)


def _row(where: str, row: Mapping[str, Any], record_size: int) -> Point:
    rate = _number(where, "bytes_per_second", row, None)
    records = _number(where, "records_per_second", row, rate / record_size)
    share = _number(where, "hot_key_share", row, 0.0)
    if share >= 1:
        raise ConfigError(f"{where}: hot_key_share", share, "a part from 0 to less than 1 is needed")
    return _time(where, row["time"] or ""), rate, records, share


def _number(where: str, name: str, row: Mapping[str, Any], default: float | None) -> float:
    text = row.get(name)
    if (text is None or text == "") and default is not None:
        return default
    try:
        number = float(text or "")
    except ValueError:
        number = -1.0
    if not 0 <= number < _MOST:
        raise ConfigError(f"{where}: {name}", text, "a number, 0 or greater, is needed")
    return number


def _time(where: str, text: str) -> float:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        return float(text)
    try:
        return epoch_seconds(text)
    except ValueError as error:
        hint = "seconds since the epoch are needed, or a time such as 2026-11-23T08:00:00Z"
        raise ConfigError(f"{where}: time", text, hint) from error


def _in_order(option: str, value: str, points: list[Point]) -> list[Point]:
    if len(points) < 2:
        raise ConfigError(option, value, "two points are needed at least")
    if any(after[0] <= before[0] for before, after in pairwise(points)):
        raise ConfigError(option, value, "the times must increase")
    return points
