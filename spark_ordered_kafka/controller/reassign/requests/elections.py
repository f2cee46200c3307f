"""Elections of preferred leaders (KIP-460), as a request of the API."""

from __future__ import annotations

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.elections import elect_preferred
from spark_ordered_kafka.kafka.values import PartitionId, TopicDescription


class LeaderElections:
    """``timeout``: seconds for each 1,000 partitions."""

    def __init__(self, admin: KafkaAdmin, timeout: float) -> None:
        self._admin = admin
        self._timeout = timeout

    def elect(self, request: schemas.LeaderElectionRequest) -> schemas.LeaderElectionResult:
        """Let the first replica of each partition lead it; a result per partition.

        Without ``partitions`` of the request, of all that another replica leads although the first one is in sync. One that
        leads already is no error. Raises UnavailableError when Kafka does not answer; some may have been elected.
        """
        if request.partitions is None:
            topics = self._admin.describe_topics()
            tps = [
                (topic.topic, row.partition)
                for topic in topics.values()
                for row in topic.partitions
                if 0 <= row.leader != row.replicas[0] and row.replicas[0] in row.isr
            ]
        else:
            tps = [(row.topic, row.partition) for row in request.partitions]
            _check_distinct(tps)
            topics = describe(self._admin, {topic for topic, _ in tps}, tps)
        refused = {tp: error for tp in tps if (error := _refusal(tp, topics)) is not None}
        asked = [tp for tp in tps if tp not in refused]
        if asked and not request.validate_only:
            refused |= elect_preferred(self._admin.requests, asked, self._timeout)
        return schemas.LeaderElectionResult(
            partitions=[
                schemas.PartitionResult(topic=topic, partition=partition)
                if (topic, partition) not in refused
                else result(
                    schemas.PartitionResult, refused[topic, partition], topic=topic, partition=partition
                )
                for topic, partition in tps
            ]
        )


def _check_distinct(tps: list[PartitionId]) -> None:
    if not tps:
        raise invalid_request("partitions is empty: name one at least, or leave it out for all")
    seen: set[PartitionId] = set()
    for topic, partition in tps:
        if (topic, partition) in seen:
            shown = f"{topic[:250]}-{partition}"
            raise invalid_request(f"partitions has the value {shown!r} twice: name each once")
        seen.add((topic, partition))


def _refusal(tp: PartitionId, topics: dict[str, TopicDescription]) -> RequestError | None:
    topic, partition = tp
    if topic in topics and 0 <= partition < len(topics[topic].partitions):
        return None
    return RequestError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic[:250]}-{partition} does not exist"
    )
