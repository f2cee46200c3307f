"""An example of a topic policy: ``topic.policy.class = topic_policy.TopicPolicy``, with this directory in PYTHONPATH."""

from spark_ordered_kafka import PolicyViolationError
from spark_ordered_kafka.controller.policy import TopicRequest

MAX_PARTITIONS = 1000
MIN_REPLICATION_FACTOR = 2
MAX_RETENTION_MS = 30 * 24 * 3600 * 1000
WHO_MAY_DELETE = {"User:admin"}


class TopicPolicy:
    """What every topic must fulfil after a request, whatever the request was about."""

    def validate(self, request: TopicRequest) -> None:
        """Refuse a request by raising PolicyViolationError; its message is what the caller is told."""
        if request.operation == "delete":
            if request.principal not in WHO_MAY_DELETE:
                raise PolicyViolationError(f"{request.principal} may not delete topics: ask an administrator")
            return
        if request.partitions > MAX_PARTITIONS:
            raise PolicyViolationError(
                f"topic {request.topic!r} would have {request.partitions} partitions: {MAX_PARTITIONS} at most"
            )
        if request.replication_factor < MIN_REPLICATION_FACTOR:
            raise PolicyViolationError(
                f"topic {request.topic!r} would have {request.replication_factor} replicas of each partition: at least "
                f"{MIN_REPLICATION_FACTOR} are needed"
            )
        # As text, and perhaps wrong: Kafka checks it after this.
        retention = request.configs.get("retention.ms", "0")
        if retention == "-1" or (retention.isdecimal() and int(retention) > MAX_RETENTION_MS):
            raise PolicyViolationError(
                f"retention.ms of topic {request.topic!r} would be {retention}: {MAX_RETENTION_MS} at most"
            )
