"""Typed copies of pydantic models with changed fields (D-220)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    # mypy holds the names and types of the fields to the model, as those of a dataclass (PEP 681).
    from dataclasses import replace as updated
else:
    from pydantic import BaseModel

    _ModelT = TypeVar("_ModelT", bound=BaseModel)

    def updated(model: _ModelT, /, **changes: Any) -> _ModelT:
        """A copy of ``model`` with ``changes``, which are not validated: mypy checks them.

        Keeps members that a later version has added to a model. Raises TypeError for an unknown field.
        """
        if not _fields(type(model)).issuperset(changes):
            unknown = sorted(changes.keys() - _fields(type(model)))
            raise TypeError(f"{type(model).__name__} has no field {unknown}")
        return model.model_copy(update=changes)

    @cache
    def _fields(kind: type[BaseModel]) -> frozenset[str]:
        # pydantic recomputes the names on each access, and copies are made by the thousand.
        return frozenset(kind.model_fields)


__all__ = ["updated"]
