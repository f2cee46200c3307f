"""Lists in messages, which may have thousands of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_ItemT = TypeVar("_ItemT")


def listed(
    items: Sequence[_ItemT], most: int, show: Callable[[_ItemT], str] = str, *, separator: str = ", "
) -> str:
    """``orders-0, orders-3 and 7 more``: the first ``most`` items, each as ``show`` says, and how many others there are."""
    more = len(items) - most
    return separator.join(map(show, items[:most])) + (f" and {more} more" if more > 0 else "")
