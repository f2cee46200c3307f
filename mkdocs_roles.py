"""Shows the roles of Sphinx that docstrings use, such as ``:meth:`~a.b.commit```, as code (an extension of Griffe for mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:mod|meth|class|func|attr|exc|data|obj):`(~?)([^`]+)`")


class SphinxRoles(griffe.Extension):
    """Rewrites the docstring of everything that is documented."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_as_code, obj.docstring.value)


def _as_code(role: re.Match[str]) -> str:
    """``~`` leaves the last part of a name, as in Sphinx."""
    return f"`{role[2].rpartition('.')[2] if role[1] else role[2]}`"
