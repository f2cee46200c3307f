"""What was recorded of earlier versions and of this one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from spark_ordered_kafka.controller.zk.records import Record
from tests.test_docs import RECORDS

HERE = Path(__file__).parent
ANSWERS = sorted(HERE.glob("*/answers/*.json"))
ZNODES = sorted(HERE.glob("*/znodes/*.json"))
# Regular expressions of paths.
KINDS = {re.sub("<.*?>", "[^/]+", path): kind for path, kind in RECORDS.items()}


def shown(path: Path) -> str:
    """The id of a test."""
    return f"{path.parts[-3]} {path.stem}"


def read(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def kind_of(znode: str) -> type[Record]:
    """The record that a znode holds."""
    inner = znode.removeprefix("/ordered-kafka")
    return next(kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, inner))
