"""What transactional producers read of a topic's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class EarlierCount(Protocol):
    """What the epochs of an earlier partition count of a compacted topic may have left behind."""

    @property
    def undeleted_partition_count(self) -> int:
        """The partition count."""

    @property
    def ends(self) -> Sequence[int]:
        """Per partition the offset below which they wrote; 0, or beyond the end: no key has moved away since."""


class WriterLayout(Protocol):
    """What a writer must know of a topic's layout; the controller's answer to a writer has it."""

    @property
    def hash(self) -> str:
        """Name of the hash of keys."""

    @property
    def initial_partition_count(self) -> int:
        """The partition count the topic began with."""

    @property
    def undeleted_partition_count(self) -> int:
        """Partitions that are written to."""

    @property
    def layout_epoch(self) -> int:
        """Number of the layout."""

    @property
    def ordered_delivery(self) -> bool:
        """Whether a change of the layout fences writers; if not, they have to ask again by themselves."""

    @property
    def earlier(self) -> Sequence[EarlierCount]:
        """Where keys of a compacted topic may have old values; empty for every other topic."""
