"""The controller's state in ZooKeeper: every write a compare-and-set, guarded by the controller epoch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.client.schemas import Open
from spark_ordered_kafka.controller.state.layouts import Layouts
from spark_ordered_kafka.controller.state.paths import (
    CREATIONS,
    DELETIONS,
    RELEASES,
    TOPICS,
    layout_path,
    partition_path,
    topic_path,
)
from spark_ordered_kafka.controller.state.records import (
    CreationRecord,
    DeletionRecord,
    LayoutRecord,
    PartitionRecord,
    ReleaseRecord,
    RemovedStatus,
    TopicRecord,
    owned_topic,
)
from spark_ordered_kafka.controller.zk.records import UnreadableRecordError, dump, number, owned, parse
from spark_ordered_kafka.controller.zk.session import ConflictError, Session, Znode
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_ItemT = TypeVar("_ItemT")
_IntentT = TypeVar("_IntentT", DeletionRecord, ReleaseRecord)
# A ZooKeeper packet may have 1 MB (jute.maxbuffer). An operation has 300 to 450 bytes with the longest name of a topic, and a
# layout of 10,000 partitions may go with them.
_OPERATIONS_PER_TRANSACTION = 500


class Znodes:
    """Reads and guarded writes. Safe to share between threads.

    Raises ZooKeeperError when ZooKeeper does not answer, and DeposedError when this controller does not lead any more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._layouts = Layouts(session, self.topic)

    def await_claim(self, stop: threading.Event) -> None:
        """Wait until ZooKeeper confirms that this controller leads (:meth:`Session.await_claim`); for changes of Kafka."""
        self._session.await_claim(stop)

    # -- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Names of the topics under management, sorted; a linearizable read."""
        self._session.sync()
        return sorted(self._session.wait(self._session.client.get_children_async(TOPICS), TOPICS))

    def topic(self, topic: str) -> TopicRecord | None:
        """The topic's record as this session sees it; None when it is not under management."""
        read = self._peek_topic(topic)
        return None if read is None else read[0]

    def peek_topics(self, topics: Sequence[str]) -> list[TopicRecord | RequestError | None]:
        """As :meth:`topic` of each; the error of one that cannot be read is in its place."""
        return _topic_records(self._session.peek_each, topics)

    def read_topics(self, topics: Sequence[str]) -> list[TopicRecord | RequestError | None]:
        """As :meth:`peek_topics`, a linearizable read."""
        return _topic_records(self._session.read_each, topics)

    def read_topic(self, topic: str) -> tuple[TopicRecord | None, int]:
        """Linearizable read: the record (None: not under management) and the znode's version (-1 then)."""
        path = topic_path(topic)
        found = self._session.read(path)
        return (None, -1) if found is None else _topic_record(found, path)

    def create_topic(self, topic: str, record: TopicRecord, layout: LayoutRecord) -> None:
        """Put the topic under management, and delete the record of its creation if there is one."""
        path = topic_path(topic)

        def fill(transaction: TransactionRequest) -> None:
            transaction.create(path, dump(record))
            transaction.create(f"{path}/layouts")
            transaction.create(f"{path}/partitions")
            transaction.create(layout_path(topic, 0), dump(layout))
            if self.creation(topic) is not None:
                transaction.delete(f"{CREATIONS}/{topic}")

        self._session.compare_and_set(path, fill)

    def _delete_topic(self, transaction: TransactionRequest, topic: str, version: int) -> None:
        """Add to the transaction: delete the topic's record, if it still has that version, and all below it."""
        path = topic_path(topic)
        parents = [f"{path}/partitions", f"{path}/layouts"]

        def children() -> list[str]:
            return [
                f"{parent}/{child}"
                for parent in parents
                for child in self._session.wait(self._session.client.get_children_async(parent), parent)
            ]

        def delete_some(before: TransactionRequest) -> None:
            for child in children()[:-_OPERATIONS_PER_TRANSACTION][:_OPERATIONS_PER_TRANSACTION]:
                before.delete(child)

        # What does not fit into the transaction is deleted before: statuses first, since the record is valid without.
        while len(children()) > _OPERATIONS_PER_TRANSACTION:
            self._session.compare_and_set(path, delete_some)
        for gone in [*children(), *parents]:
            transaction.delete(gone)
        transaction.delete(path, version=version)

    def update_topic(
        self,
        topic: str,
        transform: Callable[[TopicRecord], TopicRecord],
        extend: Callable[[TransactionRequest, TopicRecord], None] | None = None,
    ) -> TopicRecord:
        """Replace the topic's record by ``transform`` of it; ``extend`` adds to the same transaction.

        ``transform`` may run again after a lost race, and refuses by raising. Raises NewerRecordError for a record that only
        a newer controller understands.
        """
        path = topic_path(topic)

        def fill(transaction: TransactionRequest) -> TopicRecord:
            read = self._peek_topic(topic)
            if read is None:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} is not under management any more"
                )
            old, version = read
            new = transform(owned_topic(old, topic))
            transaction.set_data(path, dump(new), version=version)
            if extend is not None:
                extend(transaction, new)
            return new

        return self._session.compare_and_set(path, fill)

    def commit_layout(
        self, topic: str, transform: Callable[[TopicRecord], TopicRecord], layout: LayoutRecord
    ) -> TopicRecord:
        """Write the next layout, the topic's record and the marks of removed partitions in one transaction."""
        path = topic_path(topic)
        children = self._session.wait(self._session.client.get_children_async(f"{path}/partitions"), path)
        there = {number(child, f"{path}/partitions/{child}") for child in children}
        current = self.topic(topic)
        source = layout.undeleted_partition_count if current is None else current.undeleted_partition_count
        target = layout.undeleted_partition_count
        mark = dump(PartitionRecord(status="marked", since=layout.committed_at))
        marked = range(target, source)
        # The node of a live partition is ignored (the count decides), so what exceeds one transaction may be written before
        # a shrink commits, and deleted after an expansion has committed.
        for batch in _batches(marked[_OPERATIONS_PER_TRANSACTION:]):
            transaction = self._session.transaction()
            for partition in batch:
                _put(transaction, partition_path(topic, partition), mark, partition in there)
            self._session.commit(transaction, path)
        revived = sorted(partition for partition in there if source <= partition < target)

        def extend(transaction: TransactionRequest, new: TopicRecord) -> None:
            transaction.create(layout_path(topic, new.layout_epoch), dump(layout))
            for partition in marked[:_OPERATIONS_PER_TRANSACTION]:
                _put(transaction, partition_path(topic, partition), mark, partition in there)
            for partition in revived[:_OPERATIONS_PER_TRANSACTION]:
                transaction.delete(partition_path(topic, partition))

        new = self.update_topic(topic, transform, extend)
        for batch in _batches(revived[_OPERATIONS_PER_TRANSACTION:]):
            transaction = self._session.transaction()
            for partition in batch:
                transaction.delete(partition_path(topic, partition))
            self._session.commit(transaction, path)
        return new

    def layouts(self, topic: str, record: TopicRecord, from_epoch: int = 0) -> list[LayoutRecord]:
        """The committed layouts from ``from_epoch``, or from the first one that was not folded, to the record's epoch.

        Raises UnavailableError when the topic was replaced, or layouts folded, meanwhile.
        """
        return self._layouts.read(topic, record, from_epoch)

    def fold(self, topic: str, management: int, first_epoch: int) -> None:
        """Let the history begin at ``first_epoch`` and delete the layouts before it.

        Raises ConflictError when the topic is being changed, was replaced or adopted again, or begins there or later already.
        """
        outdated = [layout_path(topic, epoch) for epoch in self._layouts.epochs(topic) if epoch < first_epoch]

        def transform(record: TopicRecord) -> TopicRecord:
            begins = range(record.first_layout_epoch + 1, record.layout_epoch + 1)
            busy = record.change is not None or record.deleting_since is not None
            if record.management != management or busy or first_epoch not in begins:
                raise ConflictError(topic_path(topic))
            return updated(record, first_layout_epoch=first_epoch)

        def extend(transaction: TransactionRequest, _: TopicRecord) -> None:
            for child in outdated[:_OPERATIONS_PER_TRANSACTION]:
                transaction.delete(child)

        self.update_topic(topic, transform, extend)
        # No reader uses the rest; if this is interrupted, the next fold deletes it.
        for batch in _batches(outdated[_OPERATIONS_PER_TRANSACTION:]):
            transaction = self._session.transaction()
            for child in batch:
                transaction.delete(child)
            self._session.commit(transaction, topic_path(topic))
        self._layouts.forget(topic, management, first_epoch)

    def partition_statuses(self, topic: str) -> dict[int, Open[RemovedStatus]]:
        """Statuses of the partitions that have one; a newer controller's may be none of RemovedStatus."""
        path = f"{topic_path(topic)}/partitions"
        try:
            marks = self._session.children(path)
        except NoNodeError:
            return {}  # the topic was deleted since its record was read
        return {
            partition: parse(PartitionRecord, data, f"{path}/{partition}").status
            for partition, data in sorted((number(name, f"{path}/{name}"), marks[name]) for name in marks)
        }

    def set_partition_statuses(
        self,
        topic: str,
        version: int,
        statuses: Mapping[int, RemovedStatus],
        there: Collection[int],
        since: float,
    ) -> None:
        """Write the status of removed partitions; those of ``there`` have a node.

        Raises ConflictError, with some of it written, unless the topic's znode still has ``version``.
        """
        path = topic_path(topic)
        for batch in _batches(sorted(statuses)):
            transaction = self._session.transaction()
            transaction.check(path, version)
            for partition in batch:
                record = PartitionRecord(status=statuses[partition], since=since)
                _put(transaction, partition_path(topic, partition), dump(record), partition in there)
            self._session.commit(transaction, path)

    # -- creations ----------------------------------------------------------------------------------------------

    def creations(self) -> list[str]:
        """Topics whose creation has begun and not ended."""
        return sorted(self._session.wait(self._session.client.get_children_async(CREATIONS), CREATIONS))

    def creation(self, topic: str) -> CreationRecord | None:
        """The recorded creation of a topic."""
        path = f"{CREATIONS}/{topic}"
        found = self._session.peek(path)
        return None if found is None else parse(CreationRecord, found[0], path)

    def record_creation(self, topic: str, record: CreationRecord) -> None:
        """Record that the topic is about to be created in Kafka."""
        path = f"{CREATIONS}/{topic}"
        begun = self.creation(topic)
        transaction = self._session.transaction()
        _put(transaction, path, dump(record), begun is not None and owned(begun, path) is begun)
        self._session.commit(transaction, path)

    def drop_creation(self, topic: str) -> None:
        """Delete the record of a creation that failed, or that never reached Kafka."""
        if self.creation(topic) is None:
            return
        transaction = self._session.transaction()
        transaction.delete(f"{CREATIONS}/{topic}")
        self._session.commit(transaction, f"{CREATIONS}/{topic}")

    # -- deletions and releases ---------------------------------------------------------------------------------

    def deletions(self) -> dict[str, str]:
        """Topics whose deletion has begun and not ended, with the ids of the topics to delete; what cannot be read is left out."""
        return self._leaving(DELETIONS, DeletionRecord)

    def releases(self) -> dict[str, str]:
        """As :meth:`deletions`, of releases."""
        return self._leaving(RELEASES, ReleaseRecord)

    def _leaving(self, parent: str, kind: type[_IntentT]) -> dict[str, str]:
        found = {}
        for topic, data in sorted(self._session.children(parent).items()):
            try:
                found[topic] = parse(kind, data, f"{parent}/{topic}").topic_id
            except UnreadableRecordError as error:
                _log.warning("topic %s: %s", topic, error.message)
        return found

    def record_leaving(self, topic: str, transform: Callable[[TopicRecord], TopicRecord]) -> TopicRecord:
        """Write the topic's record, which ``transform`` marks for deletion or release, and the intent."""

        def extend(transaction: TransactionRequest, new: TopicRecord) -> None:
            parent = RELEASES if new.releasing else DELETIONS
            intent = (ReleaseRecord if new.releasing else DeletionRecord)(topic_id=new.topic_id)
            path = f"{parent}/{topic}"
            _put(transaction, path, dump(intent), self._exists(path))

        return self.update_topic(topic, transform, extend)

    def drop_deletion(self, topic: str, topic_id: str) -> None:
        """Delete the intent to delete the topic of that id, and the mark in its record."""
        if self.deletions().get(topic) != topic_id:
            return

        def extend(transaction: TransactionRequest, new: TopicRecord) -> None:
            transaction.delete(f"{DELETIONS}/{topic}")

        self.update_topic(topic, lambda record: updated(record, deleting_since=None), extend)

    def end_deletion(self, topic: str, topic_id: str) -> None:
        """Delete the record of the topic of that id, and the intent; a topic that has replaced it stays."""
        self._end_leaving(topic, topic_id, DELETIONS)

    def end_release(self, topic: str, topic_id: str) -> None:
        """As :meth:`end_deletion`, of a release."""
        self._end_leaving(topic, topic_id, RELEASES)

    def _end_leaving(self, topic: str, topic_id: str, parent: str) -> None:
        path = topic_path(topic)
        transaction = self._session.transaction()
        read = self._peek_topic(topic)
        if read is not None and read[0].topic_id == topic_id:
            self._delete_topic(transaction, topic, read[1])
        if self._exists(f"{parent}/{topic}"):
            transaction.delete(f"{parent}/{topic}")
        self._session.commit(transaction, path)
        self._layouts.forget(topic)

    def _exists(self, path: str) -> bool:
        return self._session.wait(self._session.client.exists_async(path), path) is not None

    def _peek_topic(self, topic: str) -> tuple[TopicRecord, int] | None:
        path = topic_path(topic)
        found = self._session.peek(path)
        return None if found is None else _topic_record(found, path)


def _topic_record(znode: Znode, path: str) -> tuple[TopicRecord, int]:
    return parse(TopicRecord, znode.data, path).under(znode.created), znode.version


def _topic_records(
    read: Callable[[Sequence[str]], Sequence[Znode | RequestError | None]], topics: Sequence[str]
) -> list[TopicRecord | RequestError | None]:
    paths = [topic_path(topic) for topic in topics]
    records: list[TopicRecord | RequestError | None] = []
    for znode, path in zip(read(paths), paths, strict=True):
        try:
            records.append(_topic_record(znode, path)[0] if isinstance(znode, Znode) else znode)
        except UnreadableRecordError as error:
            records.append(error)
    return records


def _put(transaction: TransactionRequest, path: str, data: bytes, exists: bool) -> None:
    if exists:
        transaction.set_data(path, data)
    else:
        transaction.create(path, data)


def _batches(items: Sequence[_ItemT]) -> list[Sequence[_ItemT]]:
    size = _OPERATIONS_PER_TRANSACTION
    return [items[i : i + size] for i in range(0, len(items), size)]
