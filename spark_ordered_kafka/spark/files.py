"""Files of checkpoints: of this machine, or wherever Spark can keep a checkpoint (D-313)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from spark_ordered_kafka.errors import ConfigError


class Files(Protocol):
    """A file system. Paths are absolute, with slashes; methods raise OSError where it cannot be read or written.

    Thread-safe. Directories come into being with their files: an object store has none that are empty.
    """

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing if it does not exist."""

    def below(self, directory: str) -> list[str]:
        """All files of a directory, at any depth, by their paths relative to it."""

    def read(self, path: str) -> bytes | None:
        """A file's content; None if it does not exist."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file, in place of one that is there."""

    def create(self, path: str, content: bytes) -> None:
        """Write a file; raises FileExistsError where there is one. S3 alone lets two that do so at once both go on."""

    def copy(self, source: str, target: str) -> None:
        """Copy a file."""

    def delete(self, directory: str) -> None:
        """Delete what is in a directory, and the directory too unless it is a link or a mount point."""


class LocalFiles:
    """The files of this machine, with what is mounted there."""

    def names(self, directory: str) -> list[str]:
        """See :class:`Files`."""
        try:
            return os.listdir(directory)
        except FileNotFoundError:
            return []

    def below(self, directory: str) -> list[str]:
        """See :class:`Files`."""
        root = Path(directory)
        # Also what lies behind links, as state on another disk may; and nothing that cannot be read is passed over.
        walk = os.walk(root, onerror=_raise, followlinks=True) if root.exists() else ()
        return [(Path(at) / name).relative_to(root).as_posix() for at, _, names in walk for name in names]

    def read(self, path: str) -> bytes | None:
        """See :class:`Files`."""
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """See :class:`Files`."""
        self._write(path, content, "wb")

    def create(self, path: str, content: bytes) -> None:
        """See :class:`Files`."""
        self._write(path, content, "xb")

    def _write(self, path: str, content: bytes, mode: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, mode) as file:
            file.write(content)

    def copy(self, source: str, target: str) -> None:
        """See :class:`Files`."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)

    def delete(self, directory: str) -> None:
        """See :class:`Files`."""
        if not os.path.exists(directory):
            return
        for path in Path(directory).iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        with suppress(OSError):
            os.rmdir(directory)


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def located(directories: Mapping[str, str], conf: Mapping[str, str]) -> Iterator[tuple[Files, Sequence[str]]]:
    """The directories that options have as their values, as paths, and the file system to which these belong.

    A value is a path of this machine or a URI. Where one is a URI of another file system, all are reached through Spark,
    which is started with ``conf`` and stopped afterwards. Raises ConfigError: there is no such file system.
    """
    local = {option: local_path(option, value) for option, value in directories.items()}
    paths = [path for path in local.values() if path is not None]
    if len(paths) == len(local):
        yield LocalFiles(), paths
        return
    # Starts a JVM.
    from spark_ordered_kafka.spark.hadoop_files import hadoop_files

    with hadoop_files(conf) as files:
        yield (
            files,
            [
                files.located(option, value) if path is None else files.of_this_machine(path)
                for (option, value), path in zip(directories.items(), local.values(), strict=True)
            ],
        )


def local_path(option: str, value: str) -> str | None:
    """The absolute path of a path or of a ``file:`` URI; None: a URI of another file system.

    Raises ConfigError: it cannot be one, or may not be looked at.
    """
    try:
        parts = urlsplit(value)
    except ValueError as error:  # of brackets in what stands for a host
        raise ConfigError(option, value, f"a directory is needed ({error})") from error
    if parts.scheme == "file":
        # All of the rest, as Hadoop takes it: to Spark, %20, # and ? are parts of a name.
        rest = value.partition(":")[2]
        path = Path("/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest)
    elif len(parts.scheme) > 1:
        return None
    else:
        path = Path(value)
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except (
        OSError,
        ValueError,
    ) as error:  # a name that is too long or no text, or a directory that may not be entered
        raise ConfigError(option, value, f"it cannot be read: {error}") from error
    return str(path.absolute())
