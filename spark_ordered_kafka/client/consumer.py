"""A plain Python consumer whose group keeps every key in order through partition changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from spark_ordered_kafka.client.arguments import partitions_of, wanted_offsets
from spark_ordered_kafka.client.assignment import Assignment
from spark_ordered_kafka.client.committing import AutoCommit, Transactions
from spark_ordered_kafka.client.counts import ReaderCounts
from spark_ordered_kafka.client.joining import GroupOffsets
from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
from spark_ordered_kafka.client.membership import Membership
from spark_ordered_kafka.client.offset_source import TransactionSide
from spark_ordered_kafka.client.options import consumer_options, merged
from spark_ordered_kafka.client.places import Place
from spark_ordered_kafka.client.queries import ConsumerQueries
from spark_ordered_kafka.client.subscription import Subscription
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.client.waits import limit_of
from spark_ordered_kafka.errors import ClosedError, ConfigError, RequestError
from spark_ordered_kafka.kafka.attempts import interrupt_of
from spark_ordered_kafka.kafka.clients import new_client
from spark_ordered_kafka.kafka.properties import member_properties
from spark_ordered_kafka.kafka.values import PartitionId

OnRebalance = Callable[["OrderedConsumer", list[TopicPartition]], Any]

_FOREVER = float("inf")
# Seconds of one round of a longer wait: signals are handled, and due commits made, between rounds.
_ROUND = 0.1
_LEAST_FETCH, _MOST_FETCH = 500, 10_000
# Seconds after which a consumer with records in hand serves the group, which would take it for dead otherwise.
_SERVE_INTERVAL = 1.0


class OrderedConsumer(ConsumerQueries, Membership, TransactionSide):
    """A member of a consumer group, as ``confluent_kafka.Consumer``, for topics whose partition count changes.

    Each key's records reach the group's members in the order of writing, through expansions and shrinks. A member does
    not deliver a record before all earlier records of its key are processed: by itself, or by the member that has them,
    as its committed offsets show. Until then the partition is paused (D-094).

    Delivery is at least once with offsets committed after processing. With ``enable.auto.commit`` (the default) a
    record counts as processed when the next call of :meth:`poll`, :meth:`consume` or :meth:`close` begins, unless
    :meth:`rewind` is called or an exception is on its way; without it, call :meth:`commit`, or
    :meth:`OrderedProducer.send_offsets` for exactly once.

    Messages are confluent-kafka's; with the native kernel they are of a subclass of ``confluent_kafka.Message`` that adds
    nothing but less work for Python's garbage collector. Not to be shared between threads.

    Args:
        conf: librdkafka's configuration or Java's, ``controller.url`` (http URLs separated by commas) included.
        clock: seconds, monotonic.
        options: more of the configuration, such as ``logger``; they win.

    Raises:
        ConfigError: options are unknown or wrong.
    """

    def __init__(
        self,
        conf: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self._options = consumer_options(merged(conf, options))
        self._clock = clock
        self.counts, self._transactions = ReaderCounts(), Transactions()
        self._consumer = self._open()
        self._place = Place(self._options.connection.kafka, self._options.group)
        # The next poll asks again; this one must keep to its timeout.
        self._directory = TopicDirectory(self._options.connection, retry_for=0.0)
        self._subscription = Subscription(self._directory, self._options.topics_interval, clock)
        self._listener: PartitionKeyRebalanceListener | None = None
        self._is_manual = self._has_joined = False
        self._offered: list[PartitionId] | None = None
        self._assignment = self._new_assignment([], self._join)
        self._user: dict[str, OnRebalance | None] = {}
        self._auto_commit = AutoCommit(
            self._options.commit_interval, clock, stores=self._options.stores_offsets
        )
        # Whether something delivered belongs to others before it was committed; when everything was to come again.
        self._is_lost = False
        self._rewound_at = float("-inf")
        self._served_at = clock()
        self._opened()

    def _open(self) -> Consumer:
        properties = member_properties({**self._options.connection.kafka, **self._options.callbacks})
        consumer = new_client(Consumer, properties)
        if self._login is not None:
            consumer.set_sasl_credentials(*self._login)
        return consumer

    def __enter__(self) -> OrderedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        """One record after another as :meth:`poll` returns them, without end."""
        while True:
            yield from self._take(1, None)

    # -- subscription -------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        *,
        partition_key_listener: PartitionKeyRebalanceListener | None = None,
    ) -> None:
        """Join the group for these topics, in place of those before. Partitions are assigned round-robin.

        A name that begins with ``^`` is a pattern of Python's ``re`` for the beginning of names of topics under management.
        Topics that match later join, within ``topic.metadata.refresh.interval.ms`` (10 s). The callbacks are those of
        ``confluent_kafka.Consumer.subscribe`` and get this consumer and the partitions; they may call :meth:`commit`,
        :meth:`position`, :meth:`pause` and, to begin elsewhere, :meth:`seek` or :meth:`assign` with offsets.
        ``partition_key_listener`` is called when keys come and go without a rebalance (KIP-253).

        Raises:
            ConfigError: not a list of topic names and patterns, a callback that cannot be called, or no listener.
            RequestError: UNKNOWN_TOPIC_OR_PARTITION for a topic that is not managed.
            UnavailableError: no controller answers; with several, for longer than a take-over lasts.
        """
        self._check_stays()
        for name, callback in {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}.items():
            if callback is not None and not callable(callback):
                raise ConfigError(name, callback, "a callable that takes the consumer and partitions")
        if not isinstance(partition_key_listener, PartitionKeyRebalanceListener | None):
            expected = "an object of a class made from PartitionKeyRebalanceListener"
            raise ConfigError("partition_key_listener", partition_key_listener, expected)
        self._subscription.set(topics)
        self._give_up_assignment()
        self._end_manual()
        self._listener = partition_key_listener
        self._assignment = self._new_assignment(self._subscription.topics, self._join)
        self._user = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost or on_revoke}
        self._join()

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._check_stays()
        self._give_up_assignment()
        self._unless_ended(self._consumer.unsubscribe)
        self._end_manual()
        self._subscription.clear()
        self._listener = None
        self._assignment = self._new_assignment(self._subscription.topics, self._join)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        self._check_usable()
        return [TopicPartition(*tp) for tp in self._assignment.partitions()]

    def _end_manual(self) -> None:
        if self._is_manual:
            self._is_manual = False
            self._consumer.unassign()

    def _new_assignment(self, topics: Sequence[str], rejoin: Callable[[], None]) -> Assignment:
        offsets = GroupOffsets(
            self._consumer, self._options.group, self._options.on_commit, is_member=not self._is_manual
        )
        made = Assignment(
            self._consumer,
            offsets,
            self._directory,
            topics,
            self._options,
            self._listener,
            rejoin,
            self._clock,
        )
        made.delivery.counts, made.commits.transactions = self.counts, self._transactions
        return made

    def _follow_patterns(self) -> None:
        found = self._subscription.changed()
        if found is not None:
            self._assignment.leave(set(self._subscription.topics) - set(found))
            self._subscription.topics[:] = found
            self._join()

    # -- records ------------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next record, or None if there is none within ``timeout`` seconds (None, or negative: wait without limit).

        Raises:
            OrderedKafkaError: this ends the consumer: DataLossError, RequestError, or what a listener raised. Every
                later call raises it again; records that were not returned will be delivered to the group again.
        """
        found = self._take(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Up to ``num_messages`` records: as many as there are within ``timeout`` seconds. Raises as :meth:`poll`.

        Fewer are returned at once where later records of their keys come next, from another partition (D-464).
        """
        if (
            isinstance(num_messages, bool)
            or not isinstance(num_messages, int)
            or not 0 <= num_messages <= 1_000_000
        ):
            raise ConfigError("num_messages", num_messages, "a whole number from 0 to 1000000")
        return self._take(num_messages, timeout)

    def _take(self, count: int, timeout: float | None) -> list[Message]:
        limit = limit_of(timeout)
        self._begin_taking()
        try:
            if self._is_torn:
                self._mend()
            self._keep_up()
            now = self._clock()
            if self._assignment.delivery.ready < count or now - self._served_at > _SERVE_INTERVAL:
                self._await(count, _FOREVER if limit is None else now + limit)
            return self._assignment.take(count)
        except BaseException as caught:
            # librdkafka may have given out records that were not kept here.
            self._is_torn = True
            error = interrupt_of(caught)
            self._is_interrupted = self._is_interrupted or not isinstance(error, Exception)
            if self._is_closing and isinstance(error, Exception):
                raise ClosedError("the consumer was closed meanwhile") from error
            self._end_with(error)
            if error is not caught:
                raise error from None
            raise
        finally:
            self._end_taking()

    def _await(self, count: int, deadline: float) -> None:
        """Fetch until ``count`` records are ready, no more can be, or the deadline has passed, once at least."""
        while True:
            ready = self._assignment.delivery.ready
            left = deadline - self._clock()
            most, wait = min(max(count - ready, _LEAST_FETCH), _MOST_FETCH), max(0.0, min(left, _ROUND))
            if ready >= count:
                # Only to serve the group, whose events come before records: more would be kept than is delivered (D-342).
                most, wait = 1, 0.0
            try:
                self._assignment.advance(most, wait)
            except RequestError as error:
                if not self._subscription.has_lost(error):
                    raise
                self._follow_patterns()
            self._served_at = self._clock()
            self._check_stays()
            if self._assignment.delivery.ready >= count or self._clock() >= deadline:
                return
            if self._assignment.must_deliver():
                return
            # Positions have moved without a record being delivered: the ends of partitions, a new layout.
            self._keep_up()

    def _keep_up(self) -> None:
        self._auto_commit.commit_due(self._assignment.commits)
        if self._replace_if_ended():
            self._join_again()
        self._follow_patterns()

    # -- offsets ------------------------------------------------------------------------------------------------

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = False,
    ) -> list[TopicPartition] | None:
        """Commit what is processed: everything delivered, or up to ``message``, or ``offsets``.

        Always waits for the answer, since others rely on what is committed; ``asynchronous`` only leaves it out of
        the result (D-103). The listener is called before. What would let a successor get a key's later records
        before its earlier ones is not committed yet.

        Raises:
            RebalancedError: the group has given the partitions to others, who will get the records again.
            UnavailableError: the group's coordinator does not answer.
            ConfigError: an offset is not of the assignment, or beyond what was delivered, or lies before what is
                committed where :meth:`seek` would be refused.
        """
        self._check_usable()
        wanted = wanted_offsets(message, offsets)
        commits = self._assignment.commits
        try:
            releases = self._auto_commit.processed_by(commits) if wanted is None else commits.releases(wanted)
            done = commits.commit(releases)
        except Exception as error:
            self._end_with(error)
            raise
        return None if asynchronous else done

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The offset of the next record of each partition; ``OFFSET_INVALID`` of those that are not assigned."""
        self._check_usable()
        return [
            self._assignment.commits.position(one.topic, one.partition) for one in partitions_of(partitions)
        ]

    def rewind(self) -> None:
        """Go back to what the group has committed: what was delivered since comes again, here or to others.

        For records whose processing failed, and before :meth:`OrderedProducer.send_offsets` was ever called with this
        consumer; from then on :meth:`OrderedProducer.abort` does it as well. Takes effect with the next :meth:`poll` or
        :meth:`consume`. State that was made of those records has to be loaded again, as of the last commit.
        """
        self._check_usable()
        self._rewind()

    def _rewind(self) -> None:
        self._transactions.rewound()
        if self._is_lost or self._assignment.commits.is_dirty():
            self._is_lost, self._rewound_at = False, self._clock()
            self._assignment.rewind()

    def _commit_processed(self) -> None:
        if self._failure is None and self._commits_on_revoke:
            self._auto_commit.processed(self._assignment.commits)
