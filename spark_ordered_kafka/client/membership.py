"""A consumer in its group: what it does when partitions come and go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from spark_ordered_kafka.client.counts import ReaderCounts
from spark_ordered_kafka.client.steering import Steering
from spark_ordered_kafka.errors import RebalancedError

_Rebalanced = Callable[[Consumer, list[TopicPartition]], None]


class Membership(Steering):
    """Joins the group, and follows what it assigns and takes away."""

    counts: ReaderCounts
    # The application's callbacks, by what has happened.
    _user: dict[str, Callable[[Any, list[TopicPartition]], Any] | None]
    # Whether something delivered belongs to others before it was committed.
    _is_lost: bool
    # Whether something has ended a wait for records in its middle (D-410), whether that was no error but Ctrl-C, and whether
    # a callback of librdkafka has not come to its end.
    _is_torn = False
    _is_interrupted = False
    _is_rebalancing = False

    def _join(self) -> None:
        if not self._subscription.topics:
            # Nothing matches the patterns yet.
            self._unless_ended(self._consumer.unsubscribe)
            return
        self._has_joined = True
        self._unless_ended(
            lambda: self._consumer.subscribe(
                self._subscription.topics,
                on_assign=self._noticed(self._on_assign),
                on_revoke=self._noticed(self._on_revoke),
                on_lost=self._noticed(self._on_lost),
            )
        )

    def _unless_ended(self, call: Callable[[], None]) -> None:
        """Call librdkafka; a client that has ended by itself is replaced with the next poll, which calls it then (D-499)."""
        failed: KafkaError | None = None
        try:
            call()
        except KafkaException as error:
            failed = error.args[0]
        if failed is not None:
            translated = self._assignment.offsets.translate(failed, "subscribing")
            if not self._assignment.offsets.has_ended:
                raise translated

    def _noticed(self, callback: _Rebalanced) -> _Rebalanced:
        """``callback``, of which :meth:`_mend` knows whether it came to its end."""

        def called(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self._is_rebalancing = True
            callback(consumer, partitions)
            self._is_rebalancing = False

        return called

    def _mend(self) -> None:
        """After a call that was ended in its middle.

        Ctrl-C may have come upon a callback of librdkafka, which then goes by its own idea of the assignment (D-459).
        """
        if self._is_interrupted and self._is_cut_off():
            with suppress(RebalancedError):  # others get the records again
                self._commit_processed()
            self._lose_all()
            self._is_assigned = self._is_rebalancing = False
            self._join()
        else:
            self._assignment.begin_anew()
        self._is_torn = self._is_interrupted = False

    def _replace_if_ended(self) -> bool:
        """Whether there is a fresh client of librdkafka, in place of one that does nothing any more (D-499).

        Raises RequestError where another process has the place by now (D-501).
        """
        if self._is_leaving or not self._assignment.offsets.has_ended:
            return False
        lost = self._place.loss(self._login)
        self._is_leaving = True
        try:
            self._serve_events()
            self._lose_all()
            self._is_assigned = False
            if lost is not None:
                self._end_with(lost)
                raise lost
            fresh = self._open()
            try:
                self._close_client()
            finally:
                self._consumer = fresh
        finally:
            self._is_leaving = False
        return True

    def _join_again(self) -> None:
        former = self._assignment
        self._assignment = self._new_assignment(self._subscription.topics, self._join)
        self._assignment.succeed(former)
        self._join()

    def _is_cut_off(self) -> bool:
        if self._is_manual or not self._has_joined:
            return False
        return self._is_rebalancing or not self._assignment.is_in_force()

    def _lose_all(self) -> None:
        """What librdkafka took away while its callback was cut off."""
        if tps := self._assignment.partitions():
            self._lose([TopicPartition(*tp) for tp in tps], has_failed=self._failure is not None)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_leaving:
            self._consumer.assign([])
            return
        self._lose_all()
        self._is_assigned = True
        self._place.take(self._consumer.memberid())
        # Finding where to begin asks servers, which may fail: that is done outside of librdkafka's callback.
        self._consumer.assign([])
        # Of topics that were unsubscribed from meanwhile nothing is read; the group assigns anew.
        wanted = [one for one in partitions if one.topic in self._subscription.topics]
        self._assignment.assigned(wanted)
        self.counts.rebalances += 1
        self._call("assign", wanted)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._assignment.offsets.is_left():
            # librdkafka takes it for a revocation that Kafka refuses a static member whose place another process has.
            self._on_lost(consumer, partitions)
            return
        if not self._is_assigned:
            # librdkafka takes back what a static member that is being closed has given up.
            self._consumer.unassign()
            return
        self._is_assigned = False
        try:
            if self._failure is None:
                self._assignment.stop_delivery()
                self._call("revoke", partitions)
                self._commit_processed()
        finally:
            self._forget()

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._is_assigned:
            # librdkafka takes away what a client that is replaced has lost before.
            self._consumer.unassign()
            return
        has_failed = self._failure is not None
        lost = None if self._is_leaving else self._place.loss(self._login)
        if lost is not None:
            # From here on calls raise it, also those of on_lost, which might subscribe.
            self._end_with(lost)
            # With unassign() librdkafka joins again, which would end the process that has the place now (D-501).
            self._unless_ended(self._consumer.unsubscribe)
        self._lose(partitions, has_failed=has_failed)

    def _lose(self, partitions: list[TopicPartition], *, has_failed: bool) -> None:
        self._is_assigned = False
        # It may join again from here on, and be a member by an id that no answer has brought.
        self._place.take(None)
        try:
            if not has_failed:
                self._call("lost", partitions)
        finally:
            self._forget()

    def _forget(self) -> None:
        self._is_lost = self._is_lost or self._assignment.commits.is_dirty()
        self._assignment.clear()
        self._consumer.unassign()

    def _give_up_assignment(self) -> None:
        """Commit what is processed before another subscription takes the place of this one."""
        self._commit_processed()
        self._is_lost = self._is_lost or self._assignment.commits.is_dirty()
        self._replace_if_ended()

    def _call(self, name: str, partitions: list[TopicPartition]) -> None:
        callback = self._user.get(name)
        if callback is None:
            return
        self._offered = [(one.topic, one.partition) for one in partitions]
        try:
            callback(self, [TopicPartition(*tp) for tp in self._offered])
        finally:
            self._offered = None
