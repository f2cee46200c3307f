"""What the caller itself may do in a Kafka cluster (KIP-430)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import partial

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeClusterRequest, DescribeGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from spark_ordered_kafka.errors import ErrorCode
from spark_ordered_kafka.kafka.groups import OFFSETS_TOPIC
from spark_ordered_kafka.kafka.leaders import existing_topics
from spark_ordered_kafka.kafka.requests import BrokerCalls, broker_error

# org.apache.kafka.common.acl.AclOperation: its code is the bit in an answer, which kafka-python has as a set.
_BITS: Mapping[str, int] = {
    "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
}  # fmt: skip

# The newest version that shows the rights on a group that does not exist.
_DESCRIBE_GROUPS = {"min_version": 3, "max_version": 5}
# No transaction may have it: brokers look at rights first, at the timeout second, and do nothing.
_IMPOSSIBLE_TIMEOUT_MS = 0


class OwnRights(BrokerCalls):
    """Asks the brokers which operations they allow the user of these connections."""

    def on_cluster(self) -> frozenset[str]:
        """Names of operations on the cluster. Raises UnavailableError, no broker answered in time."""
        return self._retry(self._on_cluster, "ask for the rights on the cluster")

    def on_topics(self, topics: Collection[str]) -> dict[str, frozenset[str]]:
        """By topic names of operations, none for one that may not be described; topics that do not exist are left out.

        Raises UnavailableError, no broker answered in time.
        """
        if not topics:
            return {}
        return self._retry(partial(self._on_topics, topics), f"ask for the rights on {len(topics)} topics")

    def on_groups(self, groups: Collection[str]) -> dict[str, frozenset[str]]:
        """By consumer group names of operations, none for one that may not be described; groups need not exist.

        Those whose coordinator does not answer are left out, and all of them where no group has ever committed anything: to ask
        would make Kafka's topic of offsets. Raises UnavailableError, no broker answered in time.
        """
        if not groups:
            return {}
        return self._retry(partial(self._on_groups, groups), f"ask for the rights on {len(groups)} groups")

    def on_transactional_ids(self, transactional_ids: Collection[str]) -> dict[str, frozenset[str]]:
        """By transactional id which of DESCRIBE and WRITE are allowed; ids need not exist, and none is made.

        Kafka tells no operations on them, so brokers are asked for what they refuse in any case, but for another
        reason. Raises UnavailableError, no broker answered in time.
        """
        if not transactional_ids:
            return {}
        what = f"ask for the rights on {len(transactional_ids)} transactional ids"
        return self._retry(partial(self._on_transactional_ids, transactional_ids), what)

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

    async def _on_groups(self, groups: Collection[str], deadline: float) -> dict[str, frozenset[str]]:
        if not existing_topics(await self._requests.metadata([OFFSETS_TOPIC], None, deadline)):
            return {}
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        rights: dict[str, frozenset[str]] = {}
        for row in await self._requests.coordinators(CoordinatorType.GROUP, list(groups), deadline):
            if row.error_code == kafka_errors.GroupAuthorizationFailedError.errno:
                rights[row.key] = frozenset()
            elif row.error_code == 0:
                by_coordinator[row.node_id].append(row.key)
        answers = await self._requests.settle(
            self._requests.send(
                DescribeGroupsRequest(groups=some, include_authorized_operations=True, **_DESCRIBE_GROUPS),
                coordinator,
                deadline,
            )
            for coordinator, some in by_coordinator.items()
        )
        described = [one for one in answers if not isinstance(one, kafka_errors.KafkaError)]
        for row in (row for answer in described for row in answer.groups if row.error_code == 0):
            rights[row.group_id] = _names(row.authorized_operations)
        return rights

    async def _on_transactional_ids(
        self, transactional_ids: Collection[str], deadline: float
    ) -> dict[str, frozenset[str]]:
        described = await self._requests.send(
            DescribeTransactionsRequest(transactional_ids=list(transactional_ids)), None, deadline
        )
        refused = kafka_errors.TransactionalIdAuthorizationFailedError.errno
        shown = {row.transactional_id for row in described.transaction_states if row.error_code != refused}
        answers = await self._requests.gather(
            self._requests.send(
                InitProducerIdRequest(transactional_id=one, transaction_timeout_ms=_IMPOSSIBLE_TIMEOUT_MS),
                None,
                deadline,
            )
            for one in transactional_ids
        )
        rights = {}
        for one, answer in zip(transactional_ids, answers, strict=True):
            if answer.error_code not in (refused, kafka_errors.InvalidTransactionTimeoutError.errno):
                raise broker_error(answer.error_code, f"transactional id {one!r}")
            written = answer.error_code != refused
            allowed = {"DESCRIBE": one in shown, "WRITE": written}
            rights[one] = frozenset(name for name, is_allowed in allowed.items() if is_allowed)
        return rights


def _names(bits: Collection[int]) -> frozenset[str]:
    return frozenset(name for name, bit in _BITS.items() if bit in bits)
