"""What librdkafka says, as errors of this package: which of them pass by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from spark_ordered_kafka.errors import (
    ConfigErrors,
    DataLossError,
    ErrorCode,
    FencedError,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.clients import OUT_OF_RANGE, STALE_METADATA, translate
from spark_ordered_kafka.kafka.codes import KINDS, Kind
from spark_ordered_kafka.kafka.properties import client_properties
from spark_ordered_kafka.kafka.property_checks import check_properties
from spark_ordered_kafka.kafka.transaction_errors import transaction_error

ALL_CODES = {
    name: code
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int)
}
# librdkafka's own codes end at -200; what a newer version adds may be anything that is not in use.
UNHEARD_OF = (-101, -136, 134, 999)


def test_every_code_of_librdkafka_is_classified() -> None:
    assert len(ALL_CODES) > 150
    assert sorted(ALL_CODES.values()) == sorted(KINDS), "new in this librdkafka, or in two kinds"


@pytest.mark.parametrize("name", sorted(ALL_CODES))
def test_an_error_is_translated_by_its_kind(name: str) -> None:
    error = KafkaError(ALL_CODES[name])
    translated = translate(error, "asking")
    expected = {
        Kind.RETRIABLE: UnavailableError,
        Kind.FENCED: FencedError,
        Kind.REBALANCED: RebalancedError,
        Kind.LOSS: DataLossError,
    }.get(KINDS[error.code()], RequestError)
    assert type(translated) is expected
    assert translated.retriable == (
        KINDS[error.code()] in (Kind.RETRIABLE, Kind.FENCED, Kind.REBALANCED)
    ) or (
        # As an answer of the controller's API this one says: ask another controller.
        translated.code is ErrorCode.NOT_CONTROLLER
    )
    assert name in str(translated)


@pytest.mark.parametrize("code", UNHEARD_OF)
def test_an_unheard_of_code_is_retriable_unless_librdkafka_calls_it_fatal(code: int) -> None:
    assert translate(KafkaError(code), "asking").retriable
    assert not translate(KafkaError(code, "no", fatal=True), "asking").retriable


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._DESTROY_BROKER,
        KafkaError._NOENT,
        KafkaError._SSL,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_ENOUGH_REPLICAS,
        *STALE_METADATA,
    ],
)
def test_what_a_broker_says_while_it_comes_back_is_retriable(code: int) -> None:
    assert translate(KafkaError(code), "asking").retriable


def test_what_no_retry_can_mend_names_a_code_of_its_own() -> None:
    assert (
        translate(KafkaError(KafkaError._AUTHENTICATION), "asking").code
        is ErrorCode.SASL_AUTHENTICATION_FAILED
    )
    assert translate(KafkaError(KafkaError._INVALID_ARG), "asking").code is ErrorCode.INVALID_CONFIG
    for code in (KafkaError.INVALID_SESSION_TIMEOUT, KafkaError.INVALID_TRANSACTION_TIMEOUT):
        assert translate(KafkaError(code), "asking").code is ErrorCode.INVALID_CONFIG
    assert translate(KafkaError(KafkaError._BAD_MSG), "asking").code is ErrorCode.CORRUPT_MESSAGE
    assert {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION} <= OUT_OF_RANGE


def test_unknown_error_is_a_fence_to_a_transaction_only() -> None:
    unknown = KafkaError(KafkaError.UNKNOWN)
    assert isinstance(transaction_error(unknown, "committing"), FencedError)
    assert not translate(unknown, "asking").retriable
    assert not transaction_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "committing").retriable


@pytest.mark.parametrize(
    ("given", "age"),
    [
        ({}, None),
        ({"metadata.max.age.ms": "2147483"}, "2147483"),
        ({"metadata.max.age.ms": "2147484"}, "2147483"),
        ({"metadata.max.age.ms": 86_400_000}, "2147483"),
        # These librdkafka has to see, and refuse.
        ({"metadata.max.age.ms": "86400001"}, "86400001"),
        ({"metadata.max.age.ms": "a day"}, "a day"),
        ({"topic.metadata.refresh.interval.ms": "-1"}, None),
        ({"topic.metadata.refresh.interval.ms": "715827"}, None),
        ({"topic.metadata.refresh.interval.ms": "715828"}, "2147483"),
        ({"topic.metadata.refresh.interval.ms": "3600000", "metadata.max.age.ms": "1000"}, "1000"),
    ],
)
def test_no_age_of_metadata_is_more_than_librdkafka_can_count(given: dict[str, Any], age: Any) -> None:
    assert client_properties(given).get("metadata.max.age.ms") == age


@pytest.mark.parametrize("client", [Consumer, Producer])
def test_a_group_without_a_name_does_not_end_the_process(client: type[Consumer] | type[Producer]) -> None:
    with pytest.raises(ConfigErrors) as refused:
        check_properties(client, {"group.id": "", "socket.timeout.ms": "1"}, "option kafka.")
    assert [error.option for error in refused.value.errors] == [
        "option kafka.group.id",
        "option kafka.socket.timeout.ms",
    ]
