"""What librdkafka says, as errors of this package: which of them pass by themselves."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from spark_ordered_kafka.errors import FencedError
from spark_ordered_kafka.kafka.clients import translate
from spark_ordered_kafka.kafka.producer import transaction_error


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._NOENT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_ENOUGH_REPLICAS,
    ],
)
def test_what_a_broker_says_while_it_comes_back_is_retriable(code: int) -> None:
    assert translate(KafkaError(code), "asking").retriable


def test_unknown_error_is_a_fence_to_a_transaction_only() -> None:
    unknown = KafkaError(KafkaError.UNKNOWN)
    assert isinstance(transaction_error(unknown, "committing"), FencedError)
    assert not translate(unknown, "asking").retriable
    assert not transaction_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "committing").retriable
