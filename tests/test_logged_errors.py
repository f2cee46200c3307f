"""Clients and tasks log the text of an error, not the error (D-469)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.requirements import ROOT

_PACKAGE = ROOT / "spark_ordered_kafka"
_LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log"}
MODULES = sorted(
    path for name in ("client", "kafka", "native", "spark") for path in (_PACKAGE / name).rglob("*.py")
)


def logged_errors(source: str) -> Iterator[str]:
    """Where a logger is given what an ``except`` has caught."""
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for call in ast.walk(handler):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            given = {one.id for one in call.args if isinstance(one, ast.Name)}
            if call.func.attr in _LEVELS and handler.name in given:
                yield f"line {call.lineno}: {ast.unparse(call)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_a_log_record_holds_no_error(path: Path) -> None:
    assert list(logged_errors(path.read_text(encoding="utf-8"))) == []


def test_an_error_in_a_log_record_is_found() -> None:
    source = "try:\n    f()\nexcept OSError as error:\n    _LOG.{}\n"
    assert list(logged_errors(source.format("info('%s', str(error))"))) == []
    assert list(logged_errors(source.format("info('%s', error)"))) == ["line 4: _LOG.info('%s', error)"]
