"""Migrations of checkpoints to one directory at once: at most one makes it, and nothing is mixed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spark_ordered_kafka.spark.checkpoint import SOURCE, is_free, write_checkpoint
from spark_ordered_kafka.spark.files import LocalFiles
from tests.spark.test_checkpoint import LOCAL, OF_SPARK, Killed, Killing, contents, cut_off, read, refusal


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of a checkpoint of Spark's own source, with keyed state."""
    return Path(shutil.copytree(OF_SPARK, tmp_path / "old"))


class Meeting(LocalFiles):
    """Another process begins on the same directory just before one of the copies, which are counted from 0."""

    def __init__(self, at: int, other: Callable[[], object]) -> None:
        self._left = at
        self._other = other
        self._lock = threading.Lock()

    def copy(self, source: str, target: str) -> None:
        with self._lock:
            self._left -= 1
            if self._left == -1:
                self._other()
        super().copy(source, target)


@pytest.mark.long
@pytest.mark.parametrize("writes", [0, 3, 1_000], ids=["cut off at once", "cut off", "complete"])
def test_of_two_migrations_to_one_directory_at_most_one_makes_it(
    old: Path, tmp_path: Path, writes: int
) -> None:
    whole, new = tmp_path / "whole", tmp_path / "new"
    assert not cut_off(old, whole, 1_000)
    checkpoint, copies = read(old), 0
    while not new.exists():
        meeting = Meeting(copies, lambda: cut_off(old, new, writes))
        with suppress(OSError):
            write_checkpoint("--from", meeting, checkpoint, str(new), checkpoint.batches, (0,), {"batch": 1})
            break
        if is_free(LOCAL, str(new)):
            assert "it is no" in refusal(new)
            assert not cut_off(old, new, 1_000), "the next one makes it"
        assert contents(new) == contents(whole)
        shutil.rmtree(new)
        copies += 1
    assert copies > sum(path.is_file() for path in (old / "state").rglob("*")), "it begins at each of them"


def test_two_migrations_of_different_checkpoints_do_not_mix(old: Path, tmp_path: Path) -> None:
    """The other one had found the directory absent, and begins, and ends, while the first copies."""
    other, new = Path(shutil.copytree(old, tmp_path / "other")), tmp_path / "new"
    (other / "state" / "more").write_text("of another query")

    def begin() -> None:
        shutil.rmtree(new)
        assert not cut_off(other, new, 1_000)
        (new / "metadata").write_text("cut off just before its end")

    checkpoint = read(old)
    with pytest.raises(FileExistsError, match="another migration writes to"):
        write_checkpoint(
            "--from", Meeting(0, begin), checkpoint, str(new), checkpoint.batches, (0,), {SOURCE: str(old)}
        )
    assert (new / "state" / "more").exists(), "it is left to the other one"


class Late(LocalFiles):
    """Another process begins once this one has looked at the directory ``at + 1`` times, and found it empty."""

    def __init__(self, at: int, other: Callable[[], object]) -> None:
        self._left = at
        self._other = other

    def names(self, directory: str) -> list[str]:
        found = super().names(directory)
        self._looked()
        return found

    def read(self, path: str) -> bytes | None:
        found = super().read(path)
        self._looked()
        return found

    def _looked(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._other()


@pytest.mark.parametrize("writes", [0, 1, 2, 5], ids=["note", "metadata", "a copy", "copies"])
@pytest.mark.parametrize("look", [0, 1, 2])
def test_of_two_that_find_a_directory_empty_the_second_writes_nothing(
    old: Path, tmp_path: Path, look: int, writes: int
) -> None:
    """Whatever the first, which has another checkpoint and is still at work, has written by then."""
    other, new = Path(shutil.copytree(old, tmp_path / "other")), tmp_path / "new"
    checkpoint, theirs = read(old), read(other)

    def begin() -> None:
        with pytest.raises(Killed):
            write_checkpoint(
                "--from", Killing(writes), theirs, str(new), theirs.batches, (0,), {SOURCE: str(other)}
            )
        found.update(contents(new))

    found: dict[str, bytes] = {}
    assert not new.exists()
    with pytest.raises(FileExistsError, match=r"another migration writes to|has begun there"):
        write_checkpoint(
            "--from", Late(look, begin), checkpoint, str(new), checkpoint.batches, (0,), {SOURCE: str(old)}
        )
    if writes > 0:  # or its note is torn, and it is told when it looks for it
        assert contents(new) == found


def test_what_another_migration_has_left_is_left_alone(old: Path, tmp_path: Path) -> None:
    new, checkpoint = tmp_path / "new", read(old)
    with pytest.raises(Killed):
        write_checkpoint(
            "--from", Killing(4), checkpoint, str(new), checkpoint.batches, (0,), {SOURCE: "/data/other"}
        )
    left = contents(new)
    with pytest.raises(FileExistsError, match="a migration of /data/other has begun there"):
        write_checkpoint("--from", LOCAL, checkpoint, str(new), checkpoint.batches, (0,), {SOURCE: str(old)})
    assert contents(new) == left
