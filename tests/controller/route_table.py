"""Makes docs/http-api.md of the OpenAPI document: ``python -m tests.controller.route_table > docs/http-api.md``."""

from __future__ import annotations

import sys
from typing import Any

from tests.controller.test_openapi_document import document

HEAD = """# HTTP API

What the controllers answer. A controller serves the whole document, with the fields of every body and answer and with examples, at `/openapi.json`. `ControllerClient` of the [Python API](python-api.md) has all of it but the stream of events.
Who may ask what: [security](security.md). This page is made of that document: `python -m tests.controller.route_table > docs/http-api.md`.
"""


def page() -> str:
    """docs/http-api.md."""
    paths: dict[str, dict[str, Any]] = document()[0]["paths"]
    lines = [HEAD, "| request | |", "| --- | --- |"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            first = operation["description"].partition("\n\n")[0].replace("\n", " ").replace("``", "`")
            lines.append(f"| `{method.upper()} {path}` | {first} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
