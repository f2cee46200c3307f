"""Records in removed partitions: the groups that still have to read them, and deletion on request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.topics.idle_writers import count_ids
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.positions import of_topic
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.topics.retirement import Retirement
from spark_ordered_kafka.controller.topics.unread_groups import unread_groups
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.groups import ConsumerGroups
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.leader_logs import LeaderLogs
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.logs import PartitionLogs, with_records
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_NAMED = 5
_READ_TIMEOUT = 3.0

Logs = Mapping[int, tuple[int, int]]
"""Log start and log end, by partition."""


class Drain:
    """Empties removed partitions, and finds the groups that wait for them. ``timeout`` (seconds) is for each call."""

    def __init__(self, admin: KafkaAdmin, topics: Topics, retirement: Retirement, timeout: float) -> None:
        self._admin = admin
        self._topics = topics
        self._retirement = retirement
        self._timeout = timeout
        self._groups = ConsumerGroups(admin.requests, timeout=timeout)
        self._partition_logs = PartitionLogs(admin.requests, timeout=timeout)
        self._configs = TopicConfigs(admin.requests, timeout)
        # A view shows what is known in time, and does not wait for a broker that is down.
        self._read_timeout = min(timeout, _READ_TIMEOUT)
        self._leader_logs = LeaderLogs(admin.requests, timeout=self._read_timeout)
        self._view_groups = ConsumerGroups(admin.requests, timeout=self._read_timeout)
        self._fencer = Fencer(admin)

    def delete_records(self, topic: str, request: schemas.DeleteRecordsRequest) -> schemas.DeletedRecords:
        """Delete the records of removed partitions, up to the current log ends.

        Unless forced, deletes nothing when consumer groups have not read all of it; then every partition's result has the
        reason. Raises RequestError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST for partitions that are live, or in no
        layout so far, forced or not; POLICY_VIOLATION for a topic that is compacted only.
        """
        record, _ = self._topics.record(topic)
        covered = self._topics.covered(topic, record)
        existing = len(described(self._admin, topic, record.topic_id, covered).partitions)
        wanted = _wanted(topic, request.partitions, record, existing, covered)
        # Ends first, layout second: records below these ends were written before the partitions were removed, though an
        # expansion may revive the partitions at any time (D-041).
        logs: Logs = self._admin.log_ranges(topic, wanted)
        record, _ = self._topics.record(topic)
        if request.partitions is None:
            logs = {p: log for p, log in logs.items() if p >= record.undeleted_partition_count}
        _refuse_live(topic, logs, record.undeleted_partition_count)
        if any(start < end for start, end in logs.values()):
            self._refuse_compacted(topic)
        waiting = {} if request.force else self.waiting_groups(topic, record.topic_id, logs)
        if waiting:
            rows = _refused(topic, logs, waiting)
        elif request.validate_only:
            rows = [schemas.PartitionRecords(partition=p, log_start=logs[p][0]) for p in sorted(logs)]
        else:
            rows = self._delete(topic, logs)
        return schemas.DeletedRecords(topic=topic, partitions=rows)

    def detailed(self, view: schemas.TopicView) -> schemas.TopicView:
        """``view`` with the log of every partition whose leader answers, the groups that wait for the removed ones, and the
        number of its writers' transactional ids.

        None means unknown: a broker that is down affects only its own partitions.
        """
        leaders = {p.partition: p.leader for p in view.partitions if p.leader != NO_LEADER}
        logs = self._leader_logs.describe(view.topic, leaders)
        removed = {p: (log.start, log.end) for p, log in logs.items() if p >= view.undeleted_partition_count}
        try:
            waiting = self._waiting_groups(
                view.topic, view.topic_id, removed, self._view_groups, self._read_timeout
            )
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            _log.info("topic %s: who waits for removed partitions is not known: %s", view.topic, error)
            waiting = None
        partitions = [
            updated(
                row,
                log_start=logs[row.partition].start,
                log_end=logs[row.partition].end,
                size=logs[row.partition].size,
                waiting_groups=None
                if waiting is None or row.partition not in removed
                else waiting.get(row.partition, []),
            )
            if row.partition in logs
            else row
            for row in view.partitions
        ]
        ids = count_ids(self._fencer, view.topic, self._read_timeout)
        return updated(view, partitions=partitions, transactional_ids=ids)

    def waiting_groups(self, topic: str, topic_id: str, logs: Logs) -> dict[int, list[schemas.GroupPosition]]:
        """The groups that have committed offsets for the topic and have not read a partition of ``logs`` to its end."""
        return self._waiting_groups(topic, topic_id, logs, self._groups, self._timeout)

    def _waiting_groups(
        self, topic: str, topic_id: str, logs: Logs, groups: ConsumerGroups, timeout: float
    ) -> dict[int, list[schemas.GroupPosition]]:
        unread = {partition: log for partition, log in logs.items() if log[0] < log[1]}
        if not unread:
            return {}
        # Writers' ledgers are named like their transactional ids and read nothing.
        found = groups.committed(topic, without=id_prefix(topic))
        # A group that has committed of a deleted topic of this name only will read this one from its beginning.
        committed = {
            group: {p: one.offset for p, one in of_topic(offsets, topic_id).items()}
            for group, offsets in found.items()
        }
        holds_records = partial(with_records, self._admin.requests.properties, topic, timeout=timeout)
        return {
            partition: [
                schemas.GroupPosition(group=group, offset=committed[group].get(partition))
                for group in waiting
            ]
            for partition, waiting in unread_groups(unread, committed, holds_records).items()
        }

    def _refuse_compacted(self, topic: str) -> None:
        policies = self._configs.describe(topic).get("cleanup.policy", "delete").split(",")
        if "delete" not in (policy.strip() for policy in policies):
            raise RequestError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {topic!r} has cleanup.policy={','.join(policies)}: its removed partitions may hold the last "
                "value of keys that were never written again, and Kafka does not delete records of such a topic; "
                "write those keys again, or add 'delete' to cleanup.policy if they may be lost",
            )

    def _delete(self, topic: str, logs: Logs) -> list[schemas.PartitionRecords]:
        full = {p: end for p, (start, end) in logs.items() if start < end}
        done = self._partition_logs.delete_records(topic, full) if full else {}
        try:
            self._retirement.update_status(topic)
        except OrderedKafkaError as error:
            # The records are deleted; the next check updates the status.
            _log.info("topic %s: status after deleting records is not up to date yet: %s", topic, error)
        rows = []
        for partition in sorted(logs):
            outcome = done.get(partition)
            fields = {
                "partition": partition,
                "log_start": logs[partition][0] if outcome is None else outcome.log_start,
            }
            if outcome is not None and outcome.error is not None:
                rows.append(result(schemas.PartitionRecords, outcome.error, **fields))
            else:
                rows.append(schemas.PartitionRecords.model_validate(fields))
        return rows


def emptied(count: int, existing: int, covered: int) -> range:
    """Default partitions to empty: removed ones that a layout covers. PURE."""
    return range(count, min(existing, covered))


def _wanted(
    topic: str, partitions: Sequence[int] | None, record: TopicRecord, existing: int, covered: int
) -> list[int]:
    if partitions is None:
        return list(emptied(record.undeleted_partition_count, existing, covered))
    if not partitions:
        raise invalid_request(
            "partitions is empty: name some, or leave it out for all that are marked for deletion"
        )
    unknown = sorted({p for p in partitions if not 0 <= p < existing})
    if unknown:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"partitions names {listed(unknown, _NAMED)}: topic {topic!r} has partitions 0 to {existing - 1}",
        )
    _refuse_live(topic, partitions, record.undeleted_partition_count)
    unread = sorted({p for p in partitions if p >= covered})
    if unread:
        raise invalid_request(
            f"partitions names {listed(unread, _NAMED)}: no layout of topic {topic!r} has covered that yet, so no reader can have read "
            "it; the controller will cover it as soon as no partition change is in progress"
        )
    return sorted(set(partitions))


def _refuse_live(topic: str, partitions: Iterable[int], count: int) -> None:
    live = sorted({p for p in partitions if p < count})
    if live:
        raise invalid_request(
            f"partitions names {listed(live, _NAMED)}, which topic {topic!r} still writes: only removed partitions are "
            f"emptied, and those begin at {count}"
        )


def _refused(
    topic: str, logs: Logs, waiting: Mapping[int, Sequence[schemas.GroupPosition]]
) -> list[schemas.PartitionRecords]:
    first = min(waiting)
    rows = []
    for partition, (start, end) in sorted(logs.items()):
        groups = list(waiting.get(partition, ()))
        if groups:
            message = (
                f"partition {partition} of topic {topic!r} ends at {end}, and is not read to its end by consumer group "
                f"{listed([group.group for group in groups], _NAMED)}; let them read on, or use force"
            )
        else:
            message = (
                f"nothing was deleted, since partition {first} is not read to its end by all consumer groups"
            )
        rows.append(
            result(
                schemas.PartitionRecords,
                invalid_request(message),
                partition=partition,
                log_start=start,
                waiting_groups=groups,
            )
        )
    return rows
