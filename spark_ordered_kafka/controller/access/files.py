"""Files that are read again when they change."""

from __future__ import annotations

import logging
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from spark_ordered_kafka.errors import ConfigError, UnavailableError

_log = logging.getLogger(__name__)
_ParsedT = TypeVar("_ParsedT")
_MOST_NESTED = 32


def toml_tables(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError for what is none, and for one that is nested more than 32 times, which
    Python's own functions could not follow."""
    try:
        tables = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    some: list[Any] = [tables]
    for _ in range(_MOST_NESTED):
        some = [
            inner
            for one in some
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, (dict, list))
        ]
        if not some:
            return tables
    raise ValueError("it is nested too deeply")


class WatchedFile(Generic[_ParsedT]):
    """A file's parsed content; :meth:`get` parses it again after a change.

    Args:
        key: the setting that names the file, for error messages.
        path: of the file.
        parse: its text, parsed; raises ConfigError.

    Raises:
        ConfigError: it cannot be read or parsed at the start.
    """

    def __init__(self, key: str, path: str, parse: Callable[[str], _ParsedT]) -> None:
        self._key = key
        self._path = Path(path)
        self._parse = parse
        self._lock = threading.Lock()
        self._parsed = self._read(self._mark())

    def get(self) -> _ParsedT:
        """The current content.

        Raises:
            UnavailableError: it cannot be read or parsed any more. The former content does not count: an entry may have been
                removed (D-160).
        """
        try:
            mark = self._mark()
            with self._lock:
                if self._parsed[0] != mark:
                    self._parsed = self._read(mark)
                    _log.info("%s: %s was read again", self._key, self._path)
                return self._parsed[1]
        except ConfigError as error:
            _log.error("%s", error)
            raise UnavailableError(
                f"the file of {self._key} cannot be used; see the controller's log"
            ) from error

    def _mark(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise ConfigError(
                self._key, str(self._path), f"the file cannot be read: {error.strerror}"
            ) from error
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self, mark: tuple[int, int, int]) -> tuple[tuple[int, int, int], _ParsedT]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                self._key, str(self._path), f"the file cannot be read: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(self._key, str(self._path), "the file must be text in UTF-8") from error
        return mark, self._parse(text)
