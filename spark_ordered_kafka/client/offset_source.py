"""What a producer's transaction asks of an ordered consumer whose offsets it commits."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import TopicPartition

from spark_ordered_kafka.client.arguments import partitions_of
from spark_ordered_kafka.client.backlog import CommitRequest
from spark_ordered_kafka.client.committing import AutoCommit, Transactions
from spark_ordered_kafka.client.ending import EndingConsumer
from spark_ordered_kafka.client.transactions import TransactionOffsets
from spark_ordered_kafka.errors import ConfigError, RebalancedError


class TransactionSide(EndingConsumer):
    """An ordered consumer as an :class:`~spark_ordered_kafka.client.transactions.OffsetSource`."""

    _auto_commit: AutoCommit
    _transactions: Transactions
    _is_lost: bool
    _rewound_at: float

    def _rewind(self) -> None:
        raise NotImplementedError

    def transaction_offsets(self, oldest: float | None = None) -> TransactionOffsets:
        """What :meth:`OrderedProducer.send_offsets` commits: everything delivered. The listener is called before.

        Raises RebalancedError when a transaction whose ``oldest`` record was produced then (``time.monotonic()``) is to be
        ended by :meth:`transaction_aborted`: something delivered belongs to others by now, or comes again since.
        """
        self._check_usable()
        if self._auto_commit.is_on:
            raise ConfigError("enable.auto.commit", True, "set it to false: the transaction commits")
        if self._is_lost:
            raise RebalancedError("the group gave partitions to others while their records were processed")
        if oldest is not None and oldest <= self._rewound_at:
            raise RebalancedError("records were produced before rewind(): what they were made of comes again")
        try:
            offsets = self._assignment.commits.let_go(self._assignment.commits.releases(None))
        except Exception as error:
            self._end_with(error)
            raise
        group = self._consumer.consumer_group_metadata()
        # Asked last: a broker need not refuse offsets that come without a member's id (D-089).
        if offsets and self._assignment.offsets.is_left():
            raise RebalancedError(
                "the group has taken this consumer for dead and given its partitions to others"
            )
        return TransactionOffsets(offsets, group)

    def check_positions(self, positions: Sequence[TopicPartition]) -> None:
        """Raises ConfigError unless these are the positions, those of partitions that nothing was delivered from left out."""
        self._check_usable()
        given = {
            (one.topic, one.partition): one.offset
            for one in partitions_of(positions, "positions")
            if one.offset >= 0
        }
        needed = given.keys() | self._assignment.commits.dirty()
        actual = {tp: self._assignment.commits.position(*tp).offset for tp in needed}
        wrong = sorted(tp for tp in needed if given.get(tp) != actual[tp])
        if wrong:
            shown = ", ".join(f"{name}-{p} at {given.get((name, p))}" for name, p in wrong)
            right = ", ".join(f"{name}-{p} at {actual[name, p]}" for name, p in wrong)
            hint = f"a transaction commits all that was delivered: {right}, as position(assignment()) has it"
            raise ConfigError("positions", shown, hint)

    def transactions_before(self) -> list[CommitRequest]:
        """Those that a transaction with offsets of :meth:`transaction_offsets` has to follow."""
        return self._transactions.relied_on()

    def transaction_begun(self, request: CommitRequest) -> None:
        """A transaction with offsets of :meth:`transaction_offsets` is being committed."""
        self._transactions.begun(request)

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """The transaction with these offsets is committed."""
        self._assignment.commits.note(sent.offsets)

    def transaction_aborted(self) -> None:
        """The transaction is not committed: what it was made from is delivered again."""
        if self._closed is None and self._failure is None and not self._auto_commit.is_on:
            self._rewind()
