"""Records and errors as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.change import AnyChange, FinishedChange
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.errors import error_name


def change_view(change: AnyChange) -> schemas.ChangeView:
    """A running change as the API shows it."""
    return view(schemas.ChangeView, change)


def finished_view(change: FinishedChange) -> schemas.FinishedChangeView:
    """A change that has ended as the API shows it."""
    error = None
    if change.error_code is not None:
        code = change.error_code
        error = schemas.Result(error_code=code, error=error_name(code), error_message=change.error_message)
    return view(schemas.FinishedChangeView, change, error=error)


def topic_summary(topic: str, record: TopicRecord, change: AnyChange | None) -> schemas.TopicSummary:
    """A topic's record; ``change`` is the one in progress, with its progress."""
    shown = None if change is None else change_view(change)
    return view(schemas.TopicSummary, record, topic=topic, change=shown)


def leader_epochs_view(layouts: Sequence[LayoutRecord], partition: int) -> schemas.PartitionLeaderEpochs:
    """KIP-253's two maps of one partition, from all layouts of its topic in order."""
    created: dict[int, int] = {}
    deleted: dict[int, int] = {}
    for before, after in pairwise(layouts):
        old, new = before.undeleted_partition_count, after.undeleted_partition_count
        if old <= partition < new:
            # Live again: "marked for deletion" is what a non-empty second map means.
            created, deleted = {q: after.leader_epochs[q] for q in range(old)}, {}
        elif new <= partition < old:
            deleted = {q: after.leader_epochs[q] for q in range(new)}
    return schemas.PartitionLeaderEpochs(
        partition=partition, leader_epoch_after_creation=created, leader_epoch_before_deletion=deleted
    )
