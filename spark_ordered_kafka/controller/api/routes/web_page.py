"""Routes of the web page: its files, and what browsers may do with them."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request, Response

from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.web import FILES, WebFile

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Of the page (Content Security Policy Level 3)."""


def add_routes(app: FastAPI, _: ControllerService) -> None:
    """Add them to ``app``: no part of the API, so not in its document."""
    for path, file in FILES.items():
        app.add_route(path, partial(_serve, file), methods=["GET"], include_in_schema=False)


async def _serve(file: WebFile, request: Request) -> Response:
    headers = {
        "ETag": file.etag,
        # A browser asks each time, so that after an upgrade no file is of another version than the rest.
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    given = request.headers.get("if-none-match", "")
    if file.etag in [one.strip().removeprefix("W/") for one in given.split(",")]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
