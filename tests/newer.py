"""JSON as a later version may write it, for any model: further members in every object, words that nobody knows yet."""

from __future__ import annotations

import dataclasses
import functools
import string
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from pydantic import BaseModel

WORD = "freezing"
"""In the place of a word out of a list: one of a later version."""
MEMBER = "frost"
"""The name of a member of a later version."""

_MOST = 2
_SCALARS: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 2**31 - 1),
    float: st.floats(0, 2**31, allow_nan=False),
    str: st.text(string.ascii_letters, min_size=1, max_size=5),
    bytes: st.just("e30="),
    types.NoneType: st.none(),
}
_FURTHER = st.sampled_from([None, 7, WORD, [WORD], {WORD: [1]}])


def newer(kind: Any) -> st.SearchStrategy[Any]:
    """JSON of a value of type ``kind``; members that have a default may be missing."""
    return _strategy(kind)


@functools.cache
def _strategy(kind: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind in (Any, object):
        return _FURTHER
    if origin is Annotated:
        return newer(args[0])
    if origin is Literal:
        return st.sampled_from([*args, *([WORD] if isinstance(args[0], str) else [])])
    if origin in (Union, types.UnionType):
        return st.one_of([newer(arg) for arg in args])
    if origin is tuple and args[-1:] != (...,):
        return st.tuples(*map(newer, args)).map(list)
    if origin in (list, tuple):
        return st.lists(newer(args[0]), max_size=_MOST)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(newer(args[0]).map(str), newer(args[1]), max_size=_MOST)
    return st.deferred(lambda: _objects(kind))


def _objects(kind: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {MEMBER: _FURTHER}
    for name, (annotation, is_required) in members(kind).items():
        (required if is_required else optional)[name] = newer(annotation)
    return st.fixed_dictionaries(required, optional=optional)


def members(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Name -> type of a model's or dataclass' members, and whether they must be there."""
    if issubclass(kind, BaseModel):
        return {name: (field.annotation, field.is_required()) for name, field in kind.model_fields.items()}
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: (
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    }


def roots(kinds: Iterable[type[Any]]) -> list[type[Any]]:
    """Those of ``kinds`` that are no part of another."""
    found = list(kinds)
    parts = {
        part for kind in found for annotation, _ in members(kind).values() for part in _parts(annotation)
    }
    return [kind for kind in found if kind not in parts]


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for arg in get_args(annotation):
        yield from _parts(arg)


def assert_told(written: Any, read: Any, *, whole: bool = False, at: str = "") -> None:
    """All that ``read`` has is as it was ``written``, or a default; ``whole``: and it has all of that."""
    if isinstance(written, dict) and isinstance(read, dict):
        assert not whole or written.keys() <= read.keys(), at
        for name in read.keys() & written.keys():
            assert_told(written[name], read[name], whole=whole, at=f"{at}.{name}")
    elif isinstance(written, list) and isinstance(read, list):
        assert len(written) == len(read), at
        for index, pair in enumerate(zip(written, read, strict=True)):
            assert_told(*pair, whole=whole, at=f"{at}[{index}]")
    else:
        assert written == read, at


def closed(kind: type[Any]) -> list[str]:
    """The members of a model that take the words that this version knows and no others."""
    return [name for name, (annotation, _) in members(kind).items() if _is_closed(annotation)]


def _is_closed(annotation: Any) -> bool:
    args = get_args(annotation)
    if get_origin(annotation) is Literal:
        return True
    if get_origin(annotation) in (Union, types.UnionType) and str in args:
        return False
    return any(_is_closed(arg) for arg in args)
