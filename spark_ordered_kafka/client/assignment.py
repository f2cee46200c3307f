"""What an ordered consumer reads of the partitions that its group has assigned to it, and when."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_ordered_kafka.client.claiming import Claims
from spark_ordered_kafka.client.committing import Commits
from spark_ordered_kafka.client.counts import PartitionFigures
from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.figures import partition_figures
from spark_ordered_kafka.client.joining import TIMEOUT, GroupOffsets, Joining, fetch_position
from spark_ordered_kafka.client.layout_looks import LayoutLooks
from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
from spark_ordered_kafka.client.losses import Losses
from spark_ordered_kafka.client.misrouted import MisroutedReports
from spark_ordered_kafka.client.moving import Moves
from spark_ordered_kafka.client.options import ConsumerOptions
from spark_ordered_kafka.client.progress import TopicProgress, progress_of
from spark_ordered_kafka.client.topic_layouts import TopicLayouts, require_same
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.clients import (
    OUT_OF_RANGE,
    STALE_METADATA,
    refresh_metadata,
    translate,
)
from spark_ordered_kafka.kafka.known_brokers import note_brokers
from spark_ordered_kafka.kafka.segments import offset_of, tp_of
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.native.messages import fetch, runs

_LOG = logging.getLogger(__name__)

_RETRY_INTERVAL = 0.5
# Seconds between two looks at the group's offsets while a partition is blocked.
_BLOCKED_INTERVAL = 0.1
# Seconds between two looks at a transaction that is being committed while partitions are taken up.
_COMMIT_INTERVAL = 0.01


class Assignment:
    """Fetches, gates and delivers the assigned partitions, all in the thread of the application.

    Records are fetched first and the layout is asked for second (a linearizable read): all of them then lie in layouts
    that are known.

    Args:
        consumer: librdkafka's, a member of the group.
        offsets: the group's committed offsets.
        directory: layouts of topics.
        subscription: the topics.
        options: the consumer's configuration.
        listener: called when keys come and go.
        rejoin: makes the group assign its partitions anew.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        consumer: Consumer,
        offsets: GroupOffsets,
        directory: TopicDirectory,
        subscription: Sequence[str],
        options: ConsumerOptions,
        listener: PartitionKeyRebalanceListener | None,
        rejoin: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self.offsets = offsets
        self._directory = directory
        self._subscription = subscription
        self._options = options
        self._listener = listener
        self._clock = clock
        self._joining = Joining(offsets, directory, options.reset, keeps_state=listener is not None)
        self._topics: dict[str, TopicProgress] = {}
        self._unsettled: dict[str, list[int]] = {}
        # Of topics that were read before a rebalance, too: the group's offsets may be those of a topic that was there then.
        self._read: dict[str, TopicLayouts] = {}
        # Of which the listener let go, and whose records come again all the same.
        self._let_go: set[PartitionId] = set()
        # Whose end was met before a record that was dropped came again.
        self._doubtful: set[PartitionId] = set()
        self.misrouted = MisroutedReports(options.connection, clock)
        self.delivery = Delivery(self._topics, self.misrouted.filter)
        self._losses = Losses(consumer, directory, self._topics, self.delivery, options.reset, clock)
        self._looks = LayoutLooks(
            consumer,
            directory,
            self._topics,
            self.delivery,
            options.reset,
            self._assign,
            self._on_looked,
            clock,
        )
        self._group_at = self._settle_at = clock()
        self.commits = Commits(self._topics, offsets, listener, self._look_at_group, clock)
        self.claims = Claims(consumer, offsets, self._topics, rejoin, clock)
        self.moves = Moves(consumer, self._topics, self.delivery, self.commits, self._assign, self._open)
        self._is_stalled = False

    def succeed(self, former: Assignment) -> None:
        """Keep of one before what outlives a rebalance."""
        self._read.update(former._read)
        self.moves.paused |= former.moves.paused

    # -- the group's decisions ----------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionId]:
        """The assigned partitions."""
        settled = [(name, p) for name, topic in self._topics.items() for p in topic.own]
        return settled + [(name, p) for name, partitions in self._unsettled.items() for p in partitions]

    def is_in_force(self) -> bool:
        """Whether librdkafka has the same partitions; it has none before it is known where they begin."""
        return set(self.partitions()) == {(one.topic, one.partition) for one in self._consumer.assignment()}

    def is_settled(self, tp: PartitionId) -> bool:
        """Whether it is known where an assigned partition begins."""
        return progress_of(self._topics, *tp) is not None

    def figures(self) -> list[PartitionFigures]:
        """Of the partitions whose start is known, as of the last fetch. May be called by any thread."""
        return partition_figures(self._topics, self._looks.seen_end)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions in place of those before; where to begin is found by :meth:`advance`."""
        self.clear()
        # Also topics of which it has no partition: it may be the member that assigns new ones (D-100).
        self._unsettled = {name: [] for name in self._subscription}
        self.add(partitions)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions beside those before, which keep their positions and what is not committed (D-343)."""
        for one in partitions:
            self._unsettled.setdefault(one.topic, []).append(one.partition)
        self._settle_at = self._clock()

    def clear(self) -> None:
        """Forget all partitions, and what was fetched and not delivered."""
        self.delivery.drop(self.partitions())
        self._losses.forget(self.partitions())
        self._topics.clear()
        self._unsettled = {}
        self._doubtful.clear()
        self.moves.clear()
        self.commits.take_leaving()
        self._let_go = set()

    def leave(self, names: Collection[str]) -> None:
        """Read and commit no more of topics that are gone; the group takes their partitions away later."""
        gone = {tp for tp in self.partitions() if tp[0] in names}
        self.delivery.drop(gone)
        self._losses.forget(gone)
        self._doubtful -= gone
        for name in names:
            self._topics.pop(name, None)
            self._unsettled.pop(name, None)
            self._read.pop(name, None)
        self._assign()

    def stop_delivery(self) -> None:
        """Forget what was fetched and not delivered."""
        self.delivery.drop(self.partitions())
        for topic in self._topics.values():
            for progress in topic.own.values():
                progress.forget_pending()

    def rewind(self) -> None:
        """Begin again at the committed offsets."""
        self._consumer.assign([])
        let_go, wanted = self._let_go | self.commits.take_leaving(), dict(self.moves.wanted)
        self.assigned([TopicPartition(*tp) for tp in self.partitions()])
        self._let_go = let_go
        self.moves.wanted.update(wanted)

    def begin_anew(self) -> None:
        """Fetch again what is not delivered, whatever has become of it."""
        self.delivery.drop(self.partitions())
        for topic in self._topics.values():
            for p in topic.own:
                topic.read_anew(p, topic.layouts.history.first_offset(p))
        if self._topics:
            self._assign()

    # -- records ------------------------------------------------------------------------------------------------

    def take(self, count: int) -> list[Message]:
        """Up to ``count`` records; they count as delivered."""
        return self.delivery.take(count, self._on_opened)

    def must_deliver(self) -> bool:
        """Whether what is ready has to be delivered before more can be."""
        return self.delivery.ready > 0 and any(topic.opens_with_delivery() for topic in self._topics.values())

    def advance(self, most: int, wait: float) -> None:
        """Fetch up to ``most`` records, waiting ``wait`` seconds for the first, and make ready what may be delivered."""
        if self._unsettled and self._clock() >= self._settle_at:
            self._patiently(self._settle)
        if self.moves.wanted and not self._unsettled:
            self._patiently(self.moves.settled)
        self._receive(most, self._looks.wait(wait))
        if self._losses.has_begun() and not self._patiently(lambda: self._move(self._losses.check_begun)):
            self._drop_unknown()
        if self._losses.must_find_ranges():
            self._patiently(lambda: self._move(self._losses.find_ranges))
        if self._doubtful:
            self._fetch_again()
        self._sort()
        now = self._clock()
        if self._looks.must_look_at_held(now):
            if not self._patiently(self._looks.look_at_held):
                self._drop_unknown()
        elif self._looks.must_look_at_all(now):
            self._patiently(self._looks.look_at_all)
        if now >= self._group_at:
            self._patiently(self._check_group)
        if now >= self._losses.look_at:
            self._patiently(self._look_for_losses)
        if self.commits.must_renew():
            self._patiently(self.commits.renew)
        self.misrouted.report_if_due()

    def _patiently(self, step: Callable[[], None]) -> bool:
        """Run a step; False if a server does not answer: nothing is delivered meanwhile and it is tried again later."""
        try:
            step()
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            if not self._is_stalled:
                _LOG.warning("no progress until this is known: %s", str(error))
            self._is_stalled = True
            self._group_at = self._settle_at = self._clock() + _RETRY_INTERVAL
            self._looks.put_off(self._group_at)
            return False
        self._is_stalled = False
        return True

    def _refresh(self, name: str) -> None:
        servers = self._options.connection.bootstrap_servers
        note_brokers(servers, refresh_metadata(self._consumer, name, TIMEOUT))

    def _settle(self) -> None:
        if self.commits.transactions.are_under_way():
            # Before it is known how that ends, the group's offsets may be those of before it: records would come twice.
            self._settle_at = self._clock() + _COMMIT_INTERVAL
            return
        joined: dict[str, TopicProgress] = {}
        unclaimed: list[TopicPartition] = []
        for name in self._unsettled:
            # New partitions are known to librdkafka from here on; it would find them minutes later, and rebalance.
            self._refresh(name)
        all_layouts = self._directory.refresh_all(list(self._unsettled))
        for layouts, (name, partitions) in zip(all_layouts, self._unsettled.items(), strict=True):
            topic, claims = self._joining.join(layouts, partitions)
            joined[name] = topic
            unclaimed += claims
            for p, progress in topic.own.items():
                progress.is_let_go = (name, p) in self._let_go
                progress.stopped = (name, p) in self.moves.paused
            require_same(self._read.setdefault(name, topic.layouts), topic.layouts)
        # A commit for each topic would take most of the time that a group of hundreds needs to begin.
        self._joining.claim(unclaimed)
        more = joined.keys() & self._topics.keys()
        for name in more:
            self._topics[name].add(joined[name])
        self._topics.update({name: topic for name, topic in joined.items() if name not in more})
        self.claims.settled()
        self._unsettled = {}
        self._let_go = set()
        self._assign()
        for name in more:
            self._looks.skip_folded(name)

    def _assign(self) -> None:
        """Let librdkafka fetch from where each partition was received to."""
        tps = [
            fetch_position(name, p, progress)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
        ]
        self._consumer.assign(tps)
        # What was paused when it was revoked would stay so.
        self._consumer.resume(tps)
        for topic in self._topics.values():
            for progress in topic.own.values():
                progress.paused = False
        self.moves.assigned()
        self._losses.assigned()

    def _receive(self, most: int, wait: float) -> None:
        try:
            fetched = fetch(self._consumer, most, wait)
        except KafkaException as error:
            raise translate(error.args[0], "fetching") from error
        for run in runs(fetched):
            error_of = run[0].error()
            if error_of is None:
                self.delivery.receive(run)
                self._losses.received(run[0])
            else:
                self._take_event(run[0], error_of)

    def _take_event(self, message: Message, error: KafkaError) -> None:
        progress = progress_of(self._topics, message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            if progress is None or progress.paused or progress.stopped:
                return
            if progress.dropped is not None:
                self._doubtful.add(tp_of(message))
                return
            progress.end = offset_of(message)
            if self._options.show_ends:
                self.delivery.event(message)
        elif error.code() in OUT_OF_RANGE:
            if progress is not None:
                # Records of other partitions may follow in this batch: their positions are known after those (D-115).
                self._losses.out_of_range.add(tp_of(message))
        elif error.code() in STALE_METADATA and message.topic() is not None:
            name = message.topic()
            self._patiently(lambda: self._refresh(cast(str, name)))
        else:
            translated = self.offsets.translate(error, "fetching")
            if not translated.retriable:
                raise translated
            _LOG.warning("%s", translated)

    def _move(self, find: Callable[[], bool]) -> None:
        if find():
            self._assign()

    def _fetch_again(self) -> None:
        """Fetch anew where the log's end was met although a record that was there is to come again.

        The end may be that of before the record was dropped, or compaction has removed the record meanwhile. After an
        assignment it can only be the end (D-098).
        """
        doubtful, self._doubtful = self._doubtful, set()
        for name, p in doubtful:
            self._topics[name].own[p].dropped = None
        self._assign()

    def _look_for_losses(self) -> None:
        if self._losses.look():
            self._open(self._topics)

    def _sort(self) -> None:
        closed = self.delivery.sort()
        if closed:
            self._pause(closed)
            self._look_at_group()

    def _drop_unknown(self) -> None:
        """Leave in Kafka what cannot be delivered before a controller answers again (D-374)."""
        self._pause(self.delivery.close_unknown())
        self._looks.dropped_held()

    def _pause(self, closed: Collection[PartitionId]) -> None:
        self._consumer.pause([TopicPartition(*tp) for tp in closed])
        for name, p in closed:
            self._topics[name].own[p].paused = True

    # -- layouts and the gate -----------------------------------------------------------------------------------

    def _on_looked(self, names: Collection[str], is_newer: bool) -> None:
        if is_newer:
            self._look_at_group()
        self._open(names, looked=True)
        for name in names:
            self.claims.claim(name)

    def _look_at_group(self) -> None:
        self._group_at = min(self._group_at, self._clock())

    def _check_group(self) -> None:
        """See whether what blocked partitions wait for is committed by now."""
        self._group_at = self._clock() + _BLOCKED_INTERVAL
        for name, topic in self._topics.items():
            awaited = topic.awaited()
            if awaited:
                topic.learn(self.offsets.read(name, topic.layouts.topic_id, awaited))
        self._open(self._topics)

    def _open(self, names: Collection[str], *, looked: bool = False) -> None:
        for name in names:
            topic = self._topics[name]
            topic.gate()
            for p, progress in topic.own.items():
                # What an unknown layout kept back is fetched again to be seen: the log's end may not be known (D-497).
                is_due = looked and not progress.is_gated
                if progress.paused and (is_due or progress.limit > progress.received):
                    progress.paused = False
                    self.moves.fetch_again((name, p))
        # Once for all: it looks at every record in hand.
        self._sort()

    def _on_opened(self, topic: str, partition: int) -> None:
        if self._listener is not None:
            self._listener.on_partition_key_assigned([TopicPartition(topic, partition)])
