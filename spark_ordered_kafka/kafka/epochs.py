"""Where the logs of leader epochs end (OffsetsForLeaderEpoch, KIP-101 and KIP-320), which shows truncations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from spark_ordered_kafka.kafka.leaders import CONSUMER, read_from_leaders
from spark_ordered_kafka.kafka.requests import BrokerRequests

# Undefined in Kafka's answers (UNDEFINED_EPOCH_OFFSET), and a leader epoch that is not known.
UNDEFINED = -1


def epoch_ends(
    requests: BrokerRequests, topic: str, wanted: Collection[tuple[int, int]], deadline: float
) -> dict[tuple[int, int], int]:
    """By ``(partition, leader epoch)`` the offset at which the partition's log of that and all earlier epochs ends.

    A reader that got to a higher offset under the epoch has read what the log has lost, also when the log has grown
    beyond that offset since. The current leader's ``LeaderEpochFileCache.endOffsetFor`` answers:

    - of the current epoch the log end;
    - of an earlier one the start of the next epoch that the log knows, so also for epochs without records;
    - of one whose records retention has removed, at least the log start: that is no truncation;
    - of one it cannot place, nothing: such pairs are left out, for nothing is known about them.

    Args:
        deadline: in ``time.monotonic()`` seconds.

    Raises:
        RequestError: UNKNOWN_TOPIC_OR_PARTITION, or the topic may not be described.
        UnavailableError: a partition has no leader, or not all leaders answered in time.
    """
    epochs: dict[int, list[int]] = defaultdict(list)
    for partition, epoch in sorted(set(wanted)):
        epochs[partition].append(epoch)
    ends = {}
    # A response does not say which epoch was asked for, so each request names a partition once.
    for turn in range(max(map(len, epochs.values()), default=0)):
        asked = {partition: listed[turn] for partition, listed in epochs.items() if turn < len(listed)}
        rows = read_from_leaders(
            requests,
            topic,
            asked,
            partial(_request, topic, asked),
            deadline,
            f"read where leader epochs of topic {topic!r} end",
        )
        for partition, row in rows.items():
            if row.end_offset != UNDEFINED and row.leader_epoch != UNDEFINED:
                ends[partition, asked[partition]] = int(row.end_offset)
    return ends


def _request(topic: str, asked: Mapping[int, int], chunk: Sequence[tuple[int, int]]) -> Any:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    rows = [
        # The leader's own epoch, so that a leader that was replaced does not answer.
        kind.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=asked[partition]
        )
        for partition, current in chunk
    ]
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=[kind(topic=topic, partitions=rows)], min_version=2
    )
