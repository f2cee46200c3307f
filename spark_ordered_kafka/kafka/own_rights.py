"""What the caller itself may do in a Kafka cluster (KIP-430)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from spark_ordered_kafka.errors import ErrorCode
from spark_ordered_kafka.kafka.requests import BrokerCalls, broker_error

# org.apache.kafka.common.acl.AclOperation: its code is the bit in an answer, which kafka-python has as a set.
_BITS: Mapping[str, int] = {
    "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
}  # fmt: skip


class OwnRights(BrokerCalls):
    """Asks the brokers which operations they allow the user of these connections."""

    def on_cluster(self) -> frozenset[str]:
        """Names of operations on the cluster. Raises UnavailableError, no broker answered in time."""
        return self._requests.retry(
            self._on_cluster, time.monotonic() + self._timeout, "ask for the rights on the cluster"
        )

    def on_topics(self, topics: Collection[str]) -> dict[str, frozenset[str]]:
        """By topic names of operations, none for one that may not be described; topics that do not exist are left out.

        Raises UnavailableError, no broker answered in time.
        """
        if not topics:
            return {}
        return self._requests.retry(
            partial(self._on_topics, topics),
            time.monotonic() + self._timeout,
            f"ask for the rights on {len(topics)} topics",
        )

    async def _on_cluster(self, deadline: float) -> frozenset[str]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await self._requests.send(request, None, deadline)
        if answer.error_code != 0:
            raise broker_error(answer.error_code, answer.error_message)
        return _names(answer.authorized_operations)

    async def _on_topics(self, topics: Collection[str], deadline: float) -> dict[str, frozenset[str]]:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = await self._requests.send(request, None, deadline)
        return {
            row.name: frozenset() if row.error_code else _names(row.authorized_operations)
            for row in answer.topics
            if row.error_code in (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        }


def _names(bits: Collection[int]) -> frozenset[str]:
    return frozenset(name for name, bit in _BITS.items() if bit in bits)
