"""What makes a move that has begun, or is about to, fail. PURE."""

from __future__ import annotations

from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.tracking import Tracker, View, is_settled
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode

Trouble = tuple[ErrorCode, str]
"""Error and message."""


def trouble(move: Move, tracker: Tracker, view: View) -> Trouble | None:
    """Why a move that has begun must be rolled back; None: it can continue."""
    cluster = view.cluster
    found = foreign(move, cluster)
    if found is not None:
        return found
    if move.tp in cluster.partitions and cluster.partitions[move.tp] is None:
        if tracker.gone_since is not None and view.waited(tracker.gone_since) >= view.limits.patience:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist any more"
        return None
    for broker, path in move.placements.items():
        if cluster.directories.is_offline(broker, path):
            return offline_error(broker, path)
    if move.state == "placing":
        return _placing_trouble(move, tracker, view)
    return _moving_trouble(move, tracker, view)


def foreign(move: Move, cluster: ClusterState) -> Trouble | None:
    """The error of a move whose partition another tool reassigns, or whose topic was deleted and created again."""
    ongoing = cluster.ongoing.get(move.tp)
    if ongoing is not None and ongoing.target != move.after:
        replicas = ", ".join(map(str, ongoing.target))
        return (
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"somebody else reassigns the partition, to the brokers {replicas}",
        )
    partition = cluster.partitions.get(move.tp)
    if partition is not None and move.topic_id and partition.topic_id not in ("", move.topic_id):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {move.topic!r} was deleted and replaced"
    return None


def away_error(broker: int, view: View) -> Trouble:
    """The error of a move that needs a broker which is down."""
    return (
        ErrorCode.BROKER_NOT_AVAILABLE,
        f"broker {broker} has been away for {view.limits.broker_timeout:g} s",
    )


def offline_error(broker: int, path: str | None) -> Trouble:
    """The error of a move that needs a log directory which is offline."""
    which = "a log directory" if path is None else f"log directory {path}"
    return ErrorCode.KAFKA_STORAGE_ERROR, f"{which} of broker {broker} is offline"


def _moving_trouble(move: Move, tracker: Tracker, view: View) -> Trouble | None:
    if move.state == "moving" and tracker.gone_since is not None:
        return None  # Kafka has ended it
    partition = view.cluster.partitions.get(move.tp)
    isr = () if partition is None else partition.isr
    lacking = [broker for broker in move.adding if broker not in isr]
    for broker in lacking:
        if view.is_gone(broker):
            return away_error(broker, view)
        path = tracker.located.get(broker)
        if view.cluster.directories.is_offline(broker, path):
            return offline_error(broker, path)
        if _missing(tracker, broker, view) >= view.limits.broker_timeout:
            return offline_error(broker, None)
    if (
        tracker.leaderless_since is not None
        and view.waited(tracker.leaderless_since) >= view.limits.broker_timeout
    ):
        timeout = view.limits.broker_timeout
        return (
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"the partition has had no leader to copy from for {timeout:g} s",
        )
    if partition is not None and not lacking:
        # Brokers with ZooKeeper wait for replicas that were there already, too.
        for broker in (b for b in move.after if b not in isr and view.is_gone(b)):
            return away_error(broker, view)
    return None


def _missing(tracker: Tracker, broker: int, view: View) -> float:
    """Seconds since the broker first reported that a replica is missing which it should have."""
    at = view.cluster.directories.at
    return at - tracker.missing_since.get(broker, at)


def _placing_trouble(move: Move, tracker: Tracker, view: View) -> Trouble | None:
    directories = view.cluster.directories
    partition = view.cluster.partitions.get(move.tp)
    for broker, path in move.placements.items():
        held = directories.of(move.tp, broker)
        if broker in directories.answered and held.path == path:
            continue
        if view.is_gone(broker):
            return away_error(broker, view)
        if directories.is_offline(broker, held.path or tracker.located.get(broker)):
            return offline_error(broker, held.path)
        if _missing(tracker, broker, view) >= view.limits.patience:
            return (
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                f"broker {broker} does not copy it to log directory {path} any more, and does not have it there: another tool"
                " ended the copying, or the disk was replaced",
            )
        if (
            partition is not None
            and broker not in partition.replicas
            and is_settled(partition, tracker, view)
        ):
            return ErrorCode.REPLICA_NOT_AVAILABLE, f"broker {broker} has no replica of it any more"
    return None
