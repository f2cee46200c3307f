"""Clients and tasks log the text of an error, not the error (D-469), and raise none with the frames of an earlier time (D-470)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.requirements import ROOT

_PACKAGE = ROOT / "spark_ordered_kafka"
_LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log"}
_ERROR = re.compile(r"(Error|Exception)\b")
MODULES = sorted(
    path for name in ("client", "kafka", "native", "spark") for path in (_PACKAGE / name).rglob("*.py")
)


def logged_errors(source: str) -> Iterator[str]:
    """Where a logger is given what an ``except`` has caught, or a parameter that is an error."""
    for scope in ast.walk(ast.parse(source)):
        errors = errors_of(scope)
        for call in ast.walk(scope) if errors else ():
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            given = {one.id for one in call.args if isinstance(one, ast.Name)}
            if call.func.attr in _LEVELS and errors & given:
                yield f"line {call.lineno}: {ast.unparse(call)}"


def errors_of(scope: ast.AST) -> set[str]:
    """The names that errors have in a handler or a function."""
    if isinstance(scope, ast.ExceptHandler):
        return {scope.name} if scope.name is not None else set()
    if isinstance(scope, ast.FunctionDef):
        annotated = [(one.arg, one.annotation) for one in scope.args.args + scope.args.kwonlyargs]
        return {name for name, kind in annotated if kind is not None and _ERROR.search(ast.unparse(kind))}
    return set()


def kept_errors(source: str) -> Iterator[str]:
    """Where an attribute, which may be raised again, is raised with the frames that it has."""
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Attribute) and _is_name(one.exc.value):
            yield f"line {one.lineno}: {ast.unparse(one)}"


def _is_name(value: ast.expr) -> bool:
    return _is_name(value.value) if isinstance(value, ast.Attribute) else isinstance(value, ast.Name)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_no_error_gathers_frames(path: Path) -> None:
    assert list(kept_errors(path.read_text(encoding="utf-8"))) == []


def test_an_error_that_gathers_frames_is_found() -> None:
    assert list(kept_errors("raise self.error.with_traceback(None)")) == []
    assert list(kept_errors("raise made()[0].error")) == []
    assert list(kept_errors("raise self.error")) == ["line 1: raise self.error"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_a_log_record_holds_no_error(path: Path) -> None:
    assert list(logged_errors(path.read_text(encoding="utf-8"))) == []


def test_an_error_in_a_log_record_is_found() -> None:
    source = "try:\n    f()\nexcept OSError as error:\n    _LOG.{}\n"
    assert list(logged_errors(source.format("info('%s', str(error))"))) == []
    assert list(logged_errors(source.format("info('%s', error)"))) == ["line 4: _LOG.info('%s', error)"]
    source = "def f(self, failure: OrderedKafkaError | None) -> None:\n    _LOG.info({})\n"
    assert list(logged_errors(source.format("str(failure)"))) == []
    assert list(logged_errors(source.format("'%s', failure"))) == ["line 2: _LOG.info('%s', failure)"]
