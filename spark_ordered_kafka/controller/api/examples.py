"""An example of every body, for the OpenAPI document. A test checks each against its model."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

EXAMPLES: Final[dict[str, Any]] = json.loads(
    files(__package__).joinpath("examples.json").read_text(encoding="utf-8")
)
"""By the name of the model."""
