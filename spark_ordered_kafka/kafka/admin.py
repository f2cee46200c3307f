"""What the controller asks of Kafka's brokers: topics, partitions and their log offsets."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.leaders import (
    CHUNK,
    ask_controller,
    existing_topics,
    list_offsets,
    metadata_of_all,
    read_from_leaders,
)
from spark_ordered_kafka.kafka.requests import BrokerRequests, check_mutation, was_not_executed
from spark_ordered_kafka.kafka.values import (
    PROPAGATION,
    USUAL_PROPAGATION,
    Broker,
    LogEnd,
    PartitionDescription,
    TopicDescription,
)

_OFFSETS_CHUNK = CHUNK

# What Kafka says to a request that goes by fewer partitions than there are.
_MISCOUNTED = (ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
_POLL = 0.05

PARTITIONS_CHUNK = 1000
"""New partitions in one request: Kafka's controller refuses an operation of more than 10,000 records as too large."""


class KafkaAdmin:
    """Administration of one Kafka cluster, for use by any number of threads.

    Reads are repeated until they succeed or ``timeout`` seconds have passed, or until an earlier ``deadline`` in
    ``time.monotonic()`` seconds. Changes are sent once, unless it is certain
    that nothing was changed: after an UnavailableError look whether they were made.

    Args:
        kafka: librdkafka's properties (:func:`~spark_ordered_kafka.kafka.security.checked`), or ``bootstrap.servers``
            alone.
        timeout: seconds for each call, and for each of the requests that make many partitions; the constructor waits at
            most 10 of them.
        chunk: new partitions in one request.

    Raises:
        ConfigError: a property is wrong, or does not fit the brokers' listener.
        RequestError: SASL_AUTHENTICATION_FAILED.
        UnavailableError: none of the servers answers. Every method raises it, too, when its time is up.
    """

    def __init__(
        self, kafka: Mapping[str, str] | str, *, timeout: float = 30.0, chunk: int = PARTITIONS_CHUNK
    ) -> None:
        self._timeout = timeout
        self.chunk = chunk
        self.requests = BrokerRequests(kafka, timeout)

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster, as of the last answer: brokers may be set up anew at the same addresses."""
        return self.requests.cluster_id

    def brokers(self) -> tuple[Broker, ...]:
        """The live brokers, sorted by id; at least one."""
        found: tuple[Broker, ...] = self._read(self._brokers, "list the brokers")
        return found

    def describe_topics(
        self, topics: Sequence[str] | None = None, *, deadline: float | None = None
    ) -> dict[str, TopicDescription]:
        """State of ``topics``, None: of all, internal ones included. Topics that do not exist are left out.

        Raises:
            RequestError: a topic's name is illegal or may not be described.
        """
        if topics is not None and not topics:
            return {}
        shown = "all topics" if topics is None else f"topics {', '.join(map(repr, topics))}"
        found: dict[str, TopicDescription] = self._read(
            partial(self._describe_topics, topics), f"describe {shown}", deadline
        )
        return found

    def describe_at_each(self, topic: str, *, deadline: float | None = None) -> list[TopicDescription | None]:
        """The topic as each live broker that answers shows it, None: not at all. They learn of what is new one by one.

        A broker that hangs is not waited for. Raises as :meth:`describe_topics`.
        """
        views = self._read(
            partial(metadata_of_all, self.requests, [topic]), f"ask all brokers for topic {topic!r}", deadline
        )
        return [next(map(_description, existing_topics(view)), None) for view in views]

    def newest_of_all(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        """Of each topic what the broker shows that knows most of its partitions. Raises as :meth:`describe_topics`."""
        if not topics:
            return {}
        views = self._read(partial(metadata_of_all, self.requests, topics), "ask all brokers for topics")
        shown = [_description(topic) for view in views for topic in existing_topics(view)]
        return {one.topic: one for one in sorted(shown, key=lambda one: len(one.partitions))}

    def replicas_in_sync(self, topic: str) -> dict[int, tuple[int, ...]]:
        """By partition the replicas that every live broker shows in sync, and those on brokers that are down.

        A change of them is certain before all brokers know it. A broker that hangs is not waited for.
        """
        views = self._read(
            partial(metadata_of_all, self.requests, [topic]), f"ask all brokers for topic {topic!r}"
        )
        return _in_sync_for_all(topic, views)

    def create_topic(
        self,
        topic: str,
        assignments: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic whose partition ``p`` has replicas on the brokers ``assignments[p]``, preferred leader first.

        Partitions beyond :attr:`chunk` are added to it by further requests: when one of those fails, the topic is there
        with fewer, and :meth:`create_partitions` makes the rest. With ``validate_only`` each chunk is validated as if
        it were a topic of its own.

        Returns when the brokers' controller has made it; brokers learn of it a moment later.

        Raises:
            RequestError: Kafka refused: TOPIC_ALREADY_EXISTS, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, ...
        """
        if sorted(assignments) != list(range(len(assignments))):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"create topic {topic!r}: the partitions {sorted(assignments)} are not 0, 1, 2, … without a gap",
            )
        replicas = [assignments[partition] for partition in sorted(assignments)]
        chunks = self._chunks(replicas)
        for chunk in chunks if validate_only else chunks[:1]:
            self._create_topic(topic, chunk, configs, validate_only)
        if len(chunks) > 1 and not validate_only:
            self.create_partitions(topic, len(replicas), replicas[self.chunk :])

    def has_topic(self, topic: str) -> bool:
        """Whether there is such a topic, by the brokers' controller: a broker may not know it yet.

        Raises:
            RequestError: Kafka refused to say.
        """
        try:
            self.create_topic(topic, {0: [self.brokers()[0].id]}, {}, validate_only=True)
        except RequestError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return True
            # Kafka looks for the topic first, then at the broker, which may be about to stop.
            if error.code != ErrorCode.INVALID_REPLICA_ASSIGNMENT:
                raise
        return False

    def create_partitions(
        self, topic: str, total: int, assignments: Sequence[Sequence[int]], *, validate_only: bool = False
    ) -> None:
        """Let a topic have ``total`` partitions; ``assignments`` has the replicas of each new one, in order.

        Of more than :attr:`chunk` some may have been made when this fails. With ``validate_only`` each chunk is validated
        as if it were the next one.

        Raises:
            RequestError: Kafka refused: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, ...
            UnavailableError: also when the topic has got more partitions since they were counted, perhaps by a request
                whose answer was lost.
        """
        existing = count = total - len(assignments)
        for chunk in self._chunks(assignments):
            before, count = count, len(chunk) + (existing if validate_only else count)
            try:
                self._create_partitions(topic, count, chunk, validate_only)
            except RequestError as error:
                if error.code in _MISCOUNTED:
                    # Who only asks must not wait long for a refusal, and can ask again.
                    counted, seconds = (
                        (existing, USUAL_PROPAGATION) if validate_only else (before, PROPAGATION)
                    )
                    self._check_count(topic, counted, seconds)
                raise

    def _check_count(self, topic: str, counted: int, seconds: float) -> None:
        """Raises UnavailableError if the topic has more partitions than ``counted``, which brokers learn of one by one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.describe_topics([topic]).get(topic)
            if found is not None and len(found.partitions) > counted:
                raise UnavailableError(
                    f"topic {topic!r} has {len(found.partitions)} partitions by now, not the {counted} that were counted; "
                    "send the request again"
                )
            time.sleep(_POLL)  # Kafka has no call that waits for it

    def _chunks(self, assignments: Sequence[Sequence[int]]) -> list[Sequence[Sequence[int]]]:
        """``assignments`` in pieces; one, if there are none."""
        return [assignments[i : i + self.chunk] for i in range(0, max(1, len(assignments)), self.chunk)]

    def _create_topic(
        self,
        topic: str,
        assignments: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        validate_only: bool,
    ) -> None:
        creatable = CreateTopicsRequest.CreatableTopic
        new = creatable(
            name=topic,
            # Partitions and replicas are counted in the assignments. Without any, Kafka would choose for itself.
            num_partitions=-1 if assignments else 0,
            replication_factor=-1 if assignments else 1,
            assignments=[
                creatable.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
                for partition, replicas in enumerate(assignments)
            ],
            configs=[
                creatable.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[new], timeout_ms=self._timeout_ms, validate_only=validate_only)
        self._change(request, lambda response: response.topics, f"create topic {topic!r}")

    def _create_partitions(
        self, topic: str, total: int, assignments: Sequence[Sequence[int]], validate_only: bool
    ) -> None:
        grown = CreatePartitionsRequest.CreatePartitionsTopic
        more = grown(
            name=topic,
            count=total,
            assignments=[
                grown.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments
            ],
        )
        request = CreatePartitionsRequest(
            topics=[more], timeout_ms=self._timeout_ms, validate_only=validate_only
        )
        what = f"let topic {topic!r} have {total} partitions"
        self._change(request, lambda response: response.results, what)

    def log_ends(
        self, topic: str, partitions: Sequence[int], *, deadline: float | None = None
    ) -> dict[int, LogEnd]:
        """High watermark of each partition, open transactions included, from its current leader.

        A leader answers as soon as its high watermark covers all that was acknowledged before it was elected
        (KIP-207), so what was committed before the call lies below the offset. An answer of a former leader, which
        does not know yet that it was replaced, is not taken (KIP-320).

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION.
            UnavailableError: a partition has no leader, or its leader does not answer.
        """
        found = self._offsets(topic, partitions, OffsetSpec.LATEST, "log ends", deadline=deadline)
        return {row.partition_index: LogEnd(row.offset, row.leader_epoch) for row in found}

    def log_starts(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Log start offset of each partition. Raises as :meth:`log_ends`."""
        found = self._offsets(topic, partitions, OffsetSpec.EARLIEST, "log starts")
        return {row.partition_index: row.offset for row in found}

    def log_ranges(self, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Log start and end of each partition, read in this order: where the end is not above the start, the log is empty.

        Raises as :meth:`log_ends`.
        """
        starts, ends = self.log_starts(topic, partitions), self.log_ends(topic, partitions)
        return {partition: (starts[partition], ends[partition].offset) for partition in partitions}

    def stable_ends(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Last stable offset of each partition, where a ``read_committed`` reader ends. Raises as :meth:`log_ends`."""
        found = self._offsets(
            topic, partitions, OffsetSpec.LATEST, "last stable offsets", IsolationLevel.READ_COMMITTED
        )
        return {row.partition_index: row.offset for row in found}

    def close(self) -> None:
        """Close all connections. Calls under way in other threads end with UnavailableError."""
        self.requests.close()

    @property
    def _timeout_ms(self) -> int:
        return int(1000 * self._timeout)

    def _until(self, deadline: float | None) -> float:
        latest = time.monotonic() + self._timeout
        return latest if deadline is None else min(deadline, latest)

    def _read(self, attempt: Any, what: str, deadline: float | None = None) -> Any:
        return self.requests.retry(attempt, self._until(deadline), what)

    async def _brokers(self, deadline: float) -> tuple[Broker, ...]:
        rows = await self.requests.brokers(deadline)
        found = (Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in rows)
        return tuple(sorted(found, key=lambda broker: broker.id))

    async def _describe_topics(
        self, topics: Sequence[str] | None, deadline: float
    ) -> dict[str, TopicDescription]:
        metadata = await self.requests.metadata(topics, None, deadline)
        return {topic.name: _description(topic) for topic in existing_topics(metadata)}

    def _change(self, request: Any, results: Any, what: str) -> None:
        async def attempt(deadline: float) -> None:
            response = await ask_controller(self.requests, request, deadline, timeout=self._timeout)
            for result in results(response):
                check_mutation(result, response.throttle_time_ms)

        deadline = time.monotonic() + self._timeout
        self.requests.retry(attempt, deadline, what, transient=was_not_executed)

    def _offsets(
        self,
        topic: str,
        partitions: Sequence[int],
        spec: OffsetSpec,
        what: str,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        deadline: float | None = None,
    ) -> list[Any]:
        def build(rows: Sequence[tuple[int, int]]) -> Any:
            return list_offsets({topic: rows}, spec, isolation=isolation)

        what = f"read the {what} of topic {topic!r}"
        until = self._until(deadline)
        found = read_from_leaders(self.requests, topic, partitions, build, until, what, chunk=_OFFSETS_CHUNK)
        return list(found.values())


def _in_sync_for_all(topic: str, views: Sequence[Any]) -> dict[int, tuple[int, ...]]:
    alive = {broker.node_id for view in views for broker in view.brokers}
    found: dict[int, tuple[int, ...]] = {}
    for view in views:
        for row in (
            row for shown in existing_topics(view) if shown.name == topic for row in shown.partitions
        ):
            here = {r for r in row.replica_nodes if r in row.isr_nodes or r not in alive}
            before = found.get(row.partition_index, tuple(row.replica_nodes))
            found[row.partition_index] = tuple(replica for replica in before if replica in here)
    return found


def _description(topic: Any) -> TopicDescription:
    partitions = (
        PartitionDescription(
            partition=row.partition_index,
            leader=row.leader_id,
            leader_epoch=row.leader_epoch,
            replicas=tuple(row.replica_nodes),
            isr=tuple(row.isr_nodes),
        )
        for row in topic.partitions
    )
    return TopicDescription(
        topic=topic.name,
        # org.apache.kafka.common.Uuid.toString
        topic_id=base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode(),
        internal=topic.is_internal,
        partitions=tuple(sorted(partitions, key=lambda row: row.partition)),
    )
