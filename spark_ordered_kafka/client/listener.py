"""What an application implements to hand over the state that it keeps per key (KIP-253)."""

from __future__ import annotations

from confluent_kafka import TopicPartition


class PartitionKeyRebalanceListener:
    """Called when keys come and go while a partition stays assigned, because the topic's partition count changed.

    For partitions that come and go by a rebalance of the group there are ``on_assign`` and ``on_revoke`` of
    :meth:`OrderedConsumer.subscribe`. Not called for topics without ordered delivery (D-096). Runs in the thread that
    calls the consumer. What a method raises ends the consumer: nothing is committed and nothing delivered beyond it. After a
    retriable error of this package, such as UnavailableError, the method is called again instead.
    """

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        """Some keys of ``partitions`` may be read elsewhere once this returns: flush what was made of their records.

        Called before the position is committed that lets others read those keys' next records.
        """

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        """Keys that were read elsewhere may follow in ``partitions``: load their state.

        Called before the first record of a newly opened segment is returned.
        """
