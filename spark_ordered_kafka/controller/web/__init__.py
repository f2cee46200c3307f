"""The files of the web page, as they are served: plain HTML, CSS and JavaScript modules (D-278)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class WebFile:
    """A file; ``etag`` is that of HTTP, with its quotes."""

    content: bytes
    media_type: str
    etag: str


def _files() -> dict[str, WebFile]:
    found: dict[str, WebFile] = {}
    for entry in files(__package__).iterdir():
        kind = _TYPES.get(entry.name[entry.name.rfind(".") :])
        if kind is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            path = "/" if entry.name == "index.html" else f"/web/{entry.name}"
            found[path] = WebFile(content, kind, etag)
    return found


FILES: Final = MappingProxyType(_files())
"""By the path of their URL; they are read once, so that a request can name nothing else."""
