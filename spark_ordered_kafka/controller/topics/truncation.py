"""Which offsets the logs have lost to an unclean leader election (KIP-320)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.epochs import UNDEFINED, epoch_ends
from spark_ordered_kafka.kafka.leaders import NO_LEADER

# Below the client's timeout, so that the client gets the partition without a leader.
_TIMEOUT = 6.0

# Columns of an array of offsets to check; a client's position has no layout.
_Rows = npt.NDArray[np.int64]
_PARTITION, _OFFSET, _LEADER_EPOCH, _LAYOUT = range(4)
_OF_CLIENT = -1
_NO_LIMIT = 2**63 - 1
_LAST_LEADER_EPOCH = 2**31 - 1


class TruncationCheck:
    """Compares positions and layout starts with the leaders' logs, by leader epoch."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, topics: Topics) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics

    def check(self, topic: str, request: schemas.TruncationsRequest) -> schemas.Truncations:
        """Those of the request's positions, and of the starts of all layouts in its partitions, that lie beyond their
        epoch's log.

        A position without a leader epoch (-1) cannot be judged and is not reported, and neither are layout starts of
        removed partitions without a leader.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, or LOG_TRUNCATED for a topic that was recreated.
            UnavailableError: a partition of ``positions``, or a live one, has no leader, or not all brokers answered in time.
        """
        record, _ = self._topics.record(topic)
        layouts = self._znodes.layouts(topic, record)
        partitions = described(self._admin, topic, record.topic_id, len(layouts[-1].starts)).partitions
        _validate(topic, request, len(partitions))
        given = [(row.partition, row.offset, row.leader_epoch, _OF_CLIENT) for row in request.positions]
        starts = _starts(layouts, record.first_layout_epoch)
        asked = range(len(partitions)) if request.partitions is None else request.partitions
        kept = [found[np.isin(found[:, _PARTITION], asked)] for found in starts]
        rows = np.concatenate([_rows(given), *kept], axis=0, dtype=np.int64)
        rows = rows[rows[:, _LEADER_EPOCH] != UNDEFINED]
        # Skip layout starts of removed partitions without a leader, which may be of no use any more; a client's position must
        # be checked.
        removed = partitions[record.undeleted_partition_count :]
        leaderless = [row.partition for row in removed if row.leader == NO_LEADER]
        rows = rows[(rows[:, _LAYOUT] == _OF_CLIENT) | ~np.isin(rows[:, _PARTITION], leaderless)]
        pairs, inverse = np.unique(rows[:, [_PARTITION, _LEADER_EPOCH]], axis=0, return_inverse=True)
        wanted = [(int(partition), int(epoch)) for partition, epoch in pairs]
        ends = epoch_ends(self._admin.requests, topic, wanted, time.monotonic() + _TIMEOUT)
        # An unknown end counts as no limit.
        limits = np.array([ends.get(pair, _NO_LIMIT) for pair in wanted], dtype=np.int64)
        end_offsets = limits[inverse.reshape(-1)]
        beyond = end_offsets < rows[:, _OFFSET]
        return schemas.Truncations(
            topic=topic,
            topic_id=record.topic_id,
            truncations=[_view(row, end) for row, end in zip(rows[beyond], end_offsets[beyond], strict=True)],
        )


def _validate(topic: str, request: schemas.TruncationsRequest, count: int) -> None:
    named = [(f"positions.{index}.partition", one.partition) for index, one in enumerate(request.positions)]
    named += [(f"partitions.{index}", partition) for index, partition in enumerate(request.partitions or ())]
    for field, partition in named:
        if not 0 <= partition < count:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{field} has the value {partition}: topic {topic!r} has partitions 0 to {count - 1}",
            )
    for index, position in enumerate(request.positions):
        field = f"positions.{index}"
        if not 0 <= position.offset <= _NO_LIMIT:
            raise invalid_request(
                f"{field}.offset has the value {position.offset}: an offset from 0 to {_NO_LIMIT} is needed"
            )
        if not UNDEFINED <= position.leader_epoch <= _LAST_LEADER_EPOCH:
            raise invalid_request(
                f"{field}.leader_epoch has the value {position.leader_epoch}: a leader epoch from 0 to "
                f"{_LAST_LEADER_EPOCH} is needed, or {UNDEFINED} where it is not known"
            )


def _starts(layouts: Sequence[LayoutRecord], first_epoch: int) -> Iterator[_Rows]:
    """The starts of each layout, from ``first_epoch`` on, that can have been lost and differ from its predecessor's."""
    before = np.zeros((0, 2), dtype=np.int64)
    for layout_epoch, layout in enumerate(layouts, first_epoch):
        current = np.array([layout.starts, layout.leader_epochs], dtype=np.int64).T
        new = current[:, 0] > 0
        known = min(len(before), len(current))
        new[:known] &= (current[:known] != before[:known]).any(axis=1)
        partitions = np.flatnonzero(new)
        yield np.column_stack([partitions, current[partitions], np.full(len(partitions), layout_epoch)])
        before = current


def _rows(rows: Sequence[tuple[int, int, int, int]]) -> _Rows:
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _view(row: npt.NDArray[np.int64], end_offset: np.int64) -> schemas.TruncationView:
    partition, offset, leader_epoch, layout_epoch = map(int, row)
    return schemas.TruncationView(
        partition=partition,
        offset=offset,
        leader_epoch=leader_epoch,
        end_offset=int(end_offset),
        layout_epoch=None if layout_epoch == _OF_CLIENT else layout_epoch,
    )
