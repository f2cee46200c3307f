"""The checkpoint of a Spark program: how far it is, and what may happen to its files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

Positions = dict[tuple[str, int], int]
"""By topic id and partition."""


class Checkpoint:
    """The directory of a query; beside it a copy, and the newest while that is restored."""

    def __init__(self, home: Path) -> None:
        self.directory, self.copy_of, self.aside = home / "checkpoint", home / "copy", home / "newest"

    def forget_commit(self) -> None:
        """As if the driver had died behind the last batch's tasks, before it noted the batch as done."""
        commits = self.directory / "commits"
        standing = self.standing()
        if standing is not None and standing[1]:
            for name in (f"{standing[0]}", f".{standing[0]}.crc"):
                (commits / name).unlink(missing_ok=True)

    def copy(self) -> None:
        """Keep a copy, if any batch was planned."""
        shutil.rmtree(self.copy_of, ignore_errors=True)
        if self.standing() is not None:
            _replace(self.copy_of, self.directory)

    def restore(self) -> None:
        """Put the copy in the place of the checkpoint, which stays aside."""
        if self.copy_of.exists():
            if not self.aside.exists():
                _replace(self.aside, self.directory)
            _replace(self.directory, self.copy_of)

    def put_back_newest(self) -> None:
        """Put the checkpoint back that was replaced by a copy."""
        if self.aside.exists():
            _replace(self.directory, self.aside)
            self.forget_aside()

    def forget_aside(self) -> None:
        """The restored one has become the newest."""
        shutil.rmtree(self.aside, ignore_errors=True)

    def delete(self) -> None:
        """Delete it, and its copies."""
        for directory in (self.directory, self.aside, self.copy_of):
            shutil.rmtree(directory, ignore_errors=True)

    def standing(self) -> tuple[int, bool, Positions, Positions] | None:
        """The last planned batch, whether it is committed, and where it begins and ends; None: nothing is planned."""
        planned = _batches(self.directory / "offsets")
        if not planned:
            return None
        last = planned[-1]
        before = self._positions(last - 1) if last - 1 in planned else {}
        return last, last in _batches(self.directory / "commits"), before, self._positions(last)

    def _positions(self, batch: int) -> Positions:
        lines = (self.directory / "offsets" / f"{batch}").read_text().splitlines()
        # Partitions behind the last position are at their starts.
        topics = json.loads(lines[2])["topics"].values()
        return {
            (one["topic_id"], partition): at
            for one in topics
            for partition, at in enumerate(one["positions"] or [0])
        }


def _batches(directory: Path) -> list[int]:
    if not directory.exists():
        return []
    return sorted(int(file.name) for file in directory.iterdir() if file.name.isdigit())


def _replace(target: Path, source: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)
