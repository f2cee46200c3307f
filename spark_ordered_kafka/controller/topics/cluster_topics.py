"""All topics of the cluster, under management or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import InSyncRule, TopicConfigs
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.hanging import HangingTransactions
from spark_ordered_kafka.kafka.producers import ProducerCheck
from spark_ordered_kafka.kafka.values import TopicDescription

Among = Callable[[Collection[str]], Collection[str]]
"""Those of some topics to which the caller may do something."""


class ClusterTopics:
    """Queries about the topics of the cluster. ``timeout``: seconds that brokers have for configurations; ``clock`` gives
    seconds since the epoch."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, timeout: float, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._znodes = znodes
        self._configs = TopicConfigs(admin.requests, timeout)
        fencer = Fencer(admin)
        self._producers = ProducerCheck(admin, fencer, clock)
        self._hanging = HangingTransactions(admin, fencer, clock)

    def describe(
        self, topics: Sequence[str], shown: Among, with_configs: Among | None
    ) -> schemas.KafkaTopicList:
        """Topics by name, Kafka's own included; those that do not exist are left out.

        Args:
            topics: names; empty: all.
            shown: the topics that the caller may see.
            with_configs: those whose configuration it may see; None: configurations are not wanted.

        Raises:
            RequestError: a name is illegal.
            UnavailableError: Kafka or ZooKeeper does not answer in time.
        """
        found = self._admin.describe_topics(topics or None)
        names = sorted(shown(list(found)))
        managed = set(self._znodes.topics())
        rules = {} if with_configs is None else self._configs.in_sync_rules(list(with_configs(names)))
        return schemas.KafkaTopicList(
            topics=[_view(found[name], name in managed, rules.get(name)) for name in names]
        )

    def foreign_producers(self, topic: str) -> schemas.ForeignProducers:
        """Producers that are no ordered writers, of those that Kafka remembers; raises as ``ProducerCheck.foreign``."""
        return schemas.ForeignProducers(
            topic=topic,
            producers=[
                view(schemas.ForeignProducerView, one)
                for one in self._producers.foreign(topic, self._partitions(topic))
            ],
        )

    def hanging_transactions(self, topic: str) -> schemas.HangingTransactionList:
        """Transactions that no coordinator will end; raises as ``HangingTransactions.find``."""
        return schemas.HangingTransactionList(
            topic=topic,
            transactions=[
                view(
                    schemas.HangingTransactionView,
                    one.transaction,
                    transactional_id=one.transactional_id,
                    is_certain=one.is_certain,
                )
                for one in self._hanging.find(topic, self._partitions(topic))
            ],
        )

    def configs(self, topic: str) -> dict[str, str]:
        """What is set for the topic itself; raises UnavailableError when no broker answers in time."""
        return self._configs.describe(topic, defaults=False)

    def _partitions(self, topic: str) -> list[int]:
        described = self._admin.describe_topics([topic]).get(topic)
        return [] if described is None else [row.partition for row in described.partitions]


def _view(topic: TopicDescription, managed: bool, rule: InSyncRule | None) -> schemas.KafkaTopicView:
    return view(
        schemas.KafkaTopicView,
        topic,
        managed=managed,
        partitions=[
            # Of 100,000 in a large cluster, in half the time of a view.
            schemas.KafkaPartitionView.model_validate(row, from_attributes=True)
            for row in topic.partitions
        ],
        configs=None if rule is None else dict(rule.own),
        min_insync_replicas=None if rule is None else rule.min_insync_replicas,
    )
