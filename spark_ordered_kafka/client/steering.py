"""What an application does to the partitions of an ordered consumer: pause, seek, assign by hand, store offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from spark_ordered_kafka.client.arguments import partition_of, partitions_of, wanted_offsets
from spark_ordered_kafka.client.assignment import Assignment
from spark_ordered_kafka.client.ending import EndingConsumer
from spark_ordered_kafka.client.moving import explicit
from spark_ordered_kafka.client.subscription import Subscription
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.values import PartitionId

_OF_GROUP = (
    "the group assigns the partitions of a subscription, and hands their keys over: call it in on_assign or on_revoke,"
    " with the callback's partitions, or unsubscribe() first"
)


class Steering(EndingConsumer):
    """Calls of ``confluent_kafka.Consumer`` that change what is delivered next, as far as every key stays in order."""

    _subscription: Subscription
    _has_joined: bool
    # The partitions of the rebalance whose callback is running.
    _offered: list[PartitionId] | None

    def _open(self) -> Consumer:
        raise NotImplementedError

    def _give_up_assignment(self) -> None:
        raise NotImplementedError

    def _new_assignment(self, topics: Sequence[str], rejoin: Callable[[], None]) -> Assignment:
        raise NotImplementedError

    # -- pausing and seeking ------------------------------------------------------------------------------------

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these partitions until :meth:`resume`.

        Their positions stay, so partitions with later records of the same keys wait. A pause outlives rebalances that bring
        the partition back, and ends with the subscription. Raises ConfigError for partitions that are not assigned.
        """
        self._assignment.moves.pause(self._own(partitions, "paused"))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver of these partitions again; nothing is done about those that are not paused.

        A partition that waits for earlier records of its keys continues once those are processed. Raises ConfigError for
        partitions that are not assigned.
        """
        self._assignment.moves.resume(self._own(partitions, "resumed"))

    def seek(self, partition: TopicPartition) -> None:
        """Deliver the record at ``partition.offset`` next: an offset, or ``OFFSET_BEGINNING``, ``_END`` or ``_STORED``.

        Going back behind what is committed commits that offset at once, since others go by it. Going back over a boundary
        between two layouts is refused while later records of those keys were read in other partitions: the error says which
        to seek first. What is skipped counts as processed. In ``on_assign`` it takes effect before the first record; what
        is wrong with it is raised by :meth:`poll` then.

        Raises:
            ConfigError: the partition is not assigned, the log has no such offset, or records would come out of order.
            RebalancedError: the group has given the partition to another member.
            UnavailableError: a server does not answer, or a transaction with this consumer's offsets is being committed.
        """
        self._check_usable()
        partition = partition_of(partition)
        ((name, p),) = self._own([partition], "sought")
        if self._assignment.is_settled((name, p)):
            self._assignment.moves.seek(name, p, partition.offset)
        else:
            self._assignment.moves.begin_at((name, p), partition.offset)

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None
    ) -> None:
        """Say what is processed: everything up to ``message``, or below ``offsets``; it is committed by the next commit.

        Raises ConfigError unless ``enable.auto.offset.store`` is false, and for an offset that :meth:`commit` would refuse.
        """
        self._check_usable()
        if not self._options.stores_offsets:
            hint = "set it to false: otherwise all that was delivered counts as processed at the next poll()"
            raise ConfigError("enable.auto.offset.store", True, hint)
        self._assignment.commits.store(wanted_offsets(message, offsets) or [])

    def _own(self, partitions: Iterable[TopicPartition], doing: str) -> list[PartitionId]:
        self._check_usable()
        given = [(one.topic, one.partition) for one in partitions_of(partitions)]
        assigned = set(self._assignment.partitions())
        strange = [f"{name}-{p}" for name, p in given if (name, p) not in assigned]
        if strange:
            raise ConfigError("partitions", ", ".join(strange), f"only assigned partitions can be {doing}")
        return given

    # -- assigning by hand --------------------------------------------------------------------------------------

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions without being a member of the group; in ``on_assign``: begin at their offsets.

        Partitions whose keys are read by other processes wait for what those commit to the same ``group.id``; each partition
        belongs to one process. If one of them subscribes, :meth:`poll` raises RequestError UNKNOWN_MEMBER_ID. Partitions that
        an expansion adds are read by none until they are assigned: a warning names them. Without an offset a partition begins where the group has committed, or as ``auto.offset.reset`` says.

        Raises:
            ConfigError: there is a subscription, or a partition does not exist; in ``on_assign``, partitions that are not
                those of the callback.
            RequestError: UNKNOWN_TOPIC_OR_PARTITION for a topic that is not managed.
            UnavailableError: no controller answers; with several, for longer than a take-over lasts.
        """
        self._check_usable()
        partitions = partitions_of(partitions)
        if self._offered is not None:
            self._begin_offered(partitions)
            return
        self._check_by_hand(partitions)
        self._give_up_assignment()
        self._assign_by_hand(partitions, {})

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As :meth:`assign`, in addition to the partitions that are assigned already."""
        self._check_usable()
        partitions = partitions_of(partitions)
        if self._offered is not None:
            self._begin_offered(partitions)
            return
        before = set(self._assignment.partitions())
        twice = [f"{one.topic}-{one.partition}" for one in partitions if (one.topic, one.partition) in before]
        if twice:
            raise ConfigError("partitions", ", ".join(twice), "partitions that are not assigned yet")
        self._check_by_hand(partitions)
        self._commit_processed()
        if not before:
            self._assign_by_hand(partitions, {})
            return
        self._assignment.add(partitions)
        self._begin_at(explicit(partitions))

    def unassign(self) -> None:
        """Read no partition any more, after :meth:`assign`. In ``on_revoke`` and ``on_lost`` it is done anyway."""
        self._check_usable()
        if self._offered is not None:
            return
        self._check_by_hand([])
        self._give_up_assignment()
        self._assign_by_hand([], {})

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions no more, after :meth:`assign`. In ``on_revoke`` and ``on_lost`` it is done anyway."""
        self._check_usable()
        partitions = partitions_of(partitions)
        if self._offered is not None:
            return
        self._check_by_hand(partitions)
        gone = self._own(partitions, "taken away")
        self._give_up_assignment()
        left = [tp for tp in self._assignment.partitions() if tp not in gone]
        begin = {tp: at for tp, at in self._positions().items() if tp in left}
        self._assign_by_hand([TopicPartition(*tp) for tp in left], begin)

    def _begin_offered(self, partitions: Sequence[TopicPartition]) -> None:
        given = {(one.topic, one.partition) for one in partitions}
        if given != set(self._offered or ()):
            shown = ", ".join(f"{name}-{p}" for name, p in sorted(given))
            raise ConfigError(
                "partitions", shown, "all partitions of the callback: no other member reads them"
            )
        self._begin_at(explicit(partitions))

    def _begin_at(self, offsets: Mapping[PartitionId, int]) -> None:
        for tp, offset in offsets.items():
            self._assignment.moves.begin_at(tp, offset)

    def _check_by_hand(self, partitions: Sequence[TopicPartition]) -> None:
        if self._subscription:
            raise ConfigError("partitions", ", ".join(map(_shown, partitions)), _OF_GROUP)
        topics = list(dict.fromkeys(one.topic for one in partitions))
        with self._directory.client.through_take_overs():
            layouts = dict(zip(topics, self._directory.refresh_all(topics), strict=True))
        for one in partitions:
            known = layouts[one.topic].history.partition_count
            if not 0 <= one.partition < known:
                raise ConfigError("partitions", _shown(one), f"the topic has the partitions 0 to {known - 1}")

    def _assign_by_hand(self, partitions: Sequence[TopicPartition], begin: dict[PartitionId, int]) -> None:
        paused = self._assignment.moves.paused
        if self._has_joined:
            # librdkafka would go on committing as the member that it was.
            self._begin_taking()
            try:
                self._leave()
                self._consumer, self._has_joined = self._open(), False
            finally:
                self._end_taking()
            self._check_stays()
        else:
            self._consumer.unassign()
        self._is_manual = bool(partitions)
        topics = sorted({one.topic for one in partitions})
        self._assignment = self._new_assignment(topics, lambda: self._assignment.claims.report())
        self._assignment.assigned(partitions)
        self._assignment.moves.paused |= paused & set(self._assignment.partitions())
        self._begin_at({**begin, **explicit(partitions)})

    def _positions(self) -> dict[PartitionId, int]:
        """Where reading continues, of the partitions where that is known or wanted."""
        tps = self._assignment.partitions()
        known = [self._assignment.commits.position(*tp) for tp in tps]
        wanted = self._assignment.moves.wanted.items()
        return explicit(known) | {tp: offset for tp, offset in wanted if tp in tps}


def _shown(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"
