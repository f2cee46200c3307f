"""docs/reliability.md names tests that exist, and says rightly which of them are long."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()
MODULES = re.findall(r"`((?:\w+/)*test_\w+\.py)`", PAGE)
"""Those of which all tests hold a promise."""
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`( \(long\))?", PAGE)


def test_every_test_that_is_named_exists() -> None:
    missing = [f"{file}::{name}" for file, name, _ in NAMED if name not in functions(file)]
    missing += [file for file in MODULES if not any(name.startswith("test_") for name in functions(file))]
    assert missing == []
    assert len(NAMED) > 100


def test_every_row_names_tests() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    promises = Counter(row.split(" | ")[0] for row in rows)
    assert [promise for promise, times in promises.items() if times > 1] == []
    assert [
        row
        for row in rows
        if row.count(" | ") != 2 or not re.search(r"`(?:\w+/)*test_\w+\.py(::test_\w+)?`", row)
    ] == []


def test_long_tests_are_called_so() -> None:
    wrong = [name for file, name, marked in NAMED if is_long(functions(file)[name]) != bool(marked)]
    assert wrong == []


@cache
def functions(file: str) -> dict[str, ast.FunctionDef]:
    path = TESTS / file
    body = ast.parse(path.read_text()).body if path.exists() else []
    of_classes = [inner for node in body if isinstance(node, ast.ClassDef) for inner in node.body]
    return {node.name: node for node in (*body, *of_classes) if isinstance(node, ast.FunctionDef)}


def is_long(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "pytest.mark.long" for one in function.decorator_list)
