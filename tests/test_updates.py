"""Copies of models with other values in some fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

import spark_ordered_kafka
from spark_ordered_kafka.updates import updated


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    count: int
    name: str | None = None


def test_only_what_is_named_changes_and_what_a_later_version_added_stays() -> None:
    before = Model.model_validate({"count": 1, "name": "a", "later": [2]})
    assert updated(before, count=3).model_dump() == {"count": 3, "name": "a", "later": [2]}
    assert updated(before, name=None).model_dump() == {"count": 1, "name": None, "later": [2]}
    assert before.model_dump() == {"count": 1, "name": "a", "later": [2]}


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Model has no field \['cuont'\]"):
        updated(Model(count=1), cuont=3)  # type: ignore[call-arg] # mypy refuses it, too, or it would tell here


def test_types_are_checked_by_mypy() -> None:
    updated(Model(count=1), count="many")  # type: ignore[arg-type] # likewise


def test_no_model_is_copied_in_another_way() -> None:
    package = Path(spark_ordered_kafka.__file__).parent
    users = [path.name for path in package.rglob("*.py") if "model_copy" in path.read_text(encoding="utf-8")]
    assert users == ["updates.py"]
