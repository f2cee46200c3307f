"""What may be so of one topic in a program of operators. PURE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class State:
    """A topic.

    Attributes:
        kafka: partitions in Kafka; 0 without the topic.
        own: whether that topic is the one under management, and not a namesake.
        count: undeleted partitions; 0 where nothing of the name is under management.
        initial: with which it came under management.
        target: of a change of the partition count that may be in progress.
        switching: whether a change of ``fences`` may be in progress.
        cancelled: whether that one will be taken back.
        written: numbers of the batches that Kafka's topic holds.
        counts: initial and undeleted counts under which they were written.
        ordered: whether they lie where the layouts say.
        changed: whether there is more than one layout.
        life: grows whenever another topic has the name, or it comes under management or leaves it.
        moving: whether some of its replicas may be on their way.
        fences: whether a change fences its writers (``ordered_delivery``).
        trimmed: whether what lay in removed partitions may be deleted.
        limited: whether a broker may have a limit (a guard rail).
    """

    kafka: int = 0
    own: bool = False
    count: int = 0
    initial: int = 0
    target: int = 0
    cancelled: bool = False
    written: frozenset[int] = frozenset()
    counts: frozenset[tuple[int, int]] = frozenset()
    ordered: bool = True
    changed: bool = False
    life: int = 0
    switching: bool = False
    moving: bool = False
    fences: bool = True
    trimmed: bool = False
    limited: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether Kafka has no longer what is under management."""
        return self.count > 0 and not self.own

    @property
    def can_be_written(self) -> bool:
        """Whether a writer must not be refused."""
        return self.count > 0 and self.own

    def later(self) -> set[State]:
        """What it may have become meanwhile."""
        found = self._changed()
        return found | {replace(one, moving=False) for one in found}

    @property
    def is_changing(self) -> bool:
        """Whether a change may be in progress."""
        return self.target > 0 or self.switching

    def _changed(self) -> set[State]:
        if not self.is_changing:
            return {self}
        failed = self.unchanging()
        if self.is_gone:
            return {self, failed}
        if self.switching:
            # Records that writers send meanwhile lie where either says.
            switched = replace(failed, fences=not self.fences, changed=True)
            return {self, failed} if self.cancelled else {self, switched}
        grown = replace(self, kafka=max(self.kafka, self.target))
        if self.cancelled:
            return {self, failed, grown, grown.unchanging()}
        return {self, grown, replace(grown.unchanging(), count=self.target, changed=True)}

    def unchanging(self) -> State:
        """As it is without a change in progress."""
        return replace(self, target=0, switching=False, cancelled=False)

    def managed(self) -> State:
        """As it is once Kafka's topic has been taken under management."""
        fits = self.counts <= {(self.kafka, self.kafka)}
        return replace(
            self.unchanging(),
            own=True,
            count=self.kafka,
            initial=self.kafka,
            ordered=self.ordered and fits,
            changed=False,
            fences=True,
            life=self.life + 1,
        )

    def unmanaged(self) -> State:
        """As it is once nothing of the name is under management."""
        return replace(self.unchanging(), own=False, count=0, initial=0, life=self.life + 1)

    def emptied(self, kafka: int) -> State:
        """As it is once Kafka has another topic of the name, or none."""
        none = frozenset[Any]()
        return replace(
            self,
            kafka=kafka,
            own=False,
            written=none,
            counts=none,
            ordered=True,
            trimmed=False,
            life=self.life + 1,
        )


def possible(states: Iterable[State]) -> set[State]:
    """What may be so by now."""
    return {one for state in states for one in state.later()}
