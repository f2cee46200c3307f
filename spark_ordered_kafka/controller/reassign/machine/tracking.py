"""What is remembered of a move in progress, from one step to the next. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState, Partition
from spark_ordered_kafka.controller.state.reassignment_records import Move

NEVER = float("-inf")
_MIN_BURST = 10


@dataclass(frozen=True)
class Limits:
    """How many partitions a broker sends or receives at a time (``per_broker``), and all of them (``total``); times in seconds.

    ``broker_timeout``: after which moves that need a broker which is down fail. ``patience``: how long a broker's copy of the
    metadata may be behind. ``retry``: after which Kafka is asked again. ``ramp``: how long a partition takes to begin.
    """

    per_broker: int
    total: int
    broker_timeout: float
    patience: float = 5.0
    retry: float = 1.0
    ramp: float = 0.5

    @property
    def burst(self) -> int:
        """How many a broker may begin within ``ramp``.

        Those that begin together end together if they are alike, and then nothing is copied while the next ones begin.
        """
        return max(_MIN_BURST, self.per_broker // 2)


@dataclass(frozen=True)
class Tracker:
    """What is remembered of a move in progress; a new controller begins with an empty one. Times in seconds.

    Attributes:
        asked_at: when Kafka was last asked to start it.
        unsure_until: until when a request without an answer may still take effect.
        gone_since: since when Kafka does not list a reassignment to its target.
        leaderless_since: since when the partition has no leader.
        back_since: since when it is rolled back; ``withdrawn_at`` is when Kafka was last asked to cancel it, ``refusal``
            Kafka's error, ``restored`` how often the former order was requested.
        dir_asked_at: broker -> when it was last asked to move to a log directory; ``dir_cancelled``: brokers asked to cancel that.
        copying: brokers that copy to the requested log directory, as they have answered or were seen to do.
        missing_since: broker -> since when a replica is missing that it had or should have.
        located: broker -> log directory where its new replica was seen last.
        directories_at: time of the log directories from which the last three are.
        story: times and events, the latest last.
    """

    asked_at: float | None = None
    unsure_until: float = NEVER
    gone_since: float | None = None
    leaderless_since: float | None = None
    back_since: float | None = None
    withdrawn_at: float = NEVER
    refusal: str = ""
    restored: int = 0
    dir_asked_at: Mapping[int, float] = field(default_factory=dict)
    dir_cancelled: frozenset[int] = frozenset()
    copying: frozenset[int] = frozenset()
    missing_since: Mapping[int, float] = field(default_factory=dict)
    located: Mapping[int, str] = field(default_factory=dict)
    directories_at: float = NEVER
    story: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class View:
    """Input of a step; ``away``: broker -> since when it is down."""

    cluster: ClusterState
    limits: Limits
    away: Mapping[int, float]

    def is_gone(self, broker: int) -> bool:
        """Whether the broker has been down for the broker timeout."""
        return broker in self.away and self.waited(self.away[broker]) >= self.limits.broker_timeout

    def waited(self, since: float) -> float:
        """Seconds since then."""
        return self.cluster.at - since


def is_in_progress(move: Move, cluster: ClusterState) -> bool:
    """Whether Kafka lists a reassignment to the move's target."""
    ongoing = cluster.ongoing.get(move.tp)
    return ongoing is not None and ongoing.target == move.after


def since(known: float | None, view: View) -> float:
    """``known``, or now."""
    return view.cluster.at if known is None else known


def observe(move: Move, tracker: Tracker, view: View) -> Tracker:
    """The tracker after another look at Kafka."""
    gone = None if is_in_progress(move, view.cluster) else since(tracker.gone_since, view)
    partition = view.cluster.partitions.get(move.tp)
    leaderless = None
    if partition is not None and partition.leader < 0:
        leaderless = since(tracker.leaderless_since, view)
    if gone != tracker.gone_since or leaderless != tracker.leaderless_since:
        tracker = replace(tracker, gone_since=gone, leaderless_since=leaderless)
    return (
        _with_directories(move, tracker, view)
        if view.cluster.directories.at > tracker.directories_at
        else tracker
    )


def _with_directories(move: Move, tracker: Tracker, view: View) -> Tracker:
    directories = view.cluster.directories
    copying, missing, located = set(tracker.copying), dict(tracker.missing_since), dict(tracker.located)
    placements = move.placements
    for broker in move.receiving:
        if broker not in directories.answered:
            missing.pop(broker, None)
            continue
        held = directories.of(move.tp, broker)
        wanted = placements.get(broker)
        if held.future_path is not None and held.future_path == wanted:
            copying.add(broker)
        if held.path is not None and broker not in move.before:
            located[broker] = held.path
        asked = tracker.dir_asked_at.get(broker, NEVER)
        stopped = directories.at > asked and broker in copying and wanted not in (held.path, held.future_path)
        if stopped or (held.path is None and directories.offline.get(broker)):
            missing.setdefault(broker, directories.at)
        else:
            missing.pop(broker, None)
    return replace(
        tracker,
        copying=frozenset(copying),
        missing_since=missing,
        located=located,
        directories_at=directories.at,
    )


def is_settled(partition: Partition, tracker: Tracker, view: View) -> bool:
    """Whether the partition was described so long after the end of its reassignment that every broker shows the end."""
    return tracker.gone_since is not None and partition.at - tracker.gone_since >= view.limits.patience
