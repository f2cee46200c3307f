"""Options of the Spark format and of the plain clients, Kafka's properties, and credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka import parsing
from spark_ordered_kafka.client.options import consumer_options, producer_options
from spark_ordered_kafka.client.subscription import _parsed
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import NAMES, controller_credentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka import java_names, java_security
from spark_ordered_kafka.kafka.security import checked
from spark_ordered_kafka.spark import option_names
from spark_ordered_kafka.spark.options import batch_options, sink_options, source_options
from tests.fuzz.hostile import accepted, documents, fuzzed, names, texts

POSITIONS = documents([{"orders": {"0": 23, "1": -1, "2": -2}}, {"a": {"0": 1700000000000}}])
ASSIGNED = documents([{"orders": [0, 1], "b": [2]}])
values = st.one_of(texts, POSITIONS, ASSIGNED)
BASE = {"kafka.bootstrap.servers": "h:1", "controller.url": "http://localhost:8090"}
JAAS = st.one_of(
    texts,
    texts.map(
        lambda text: f"org.apache.kafka.common.security.plain.PlainLoginModule required username={text};"
    ),
    texts.map(
        lambda text: (
            f'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{text}";'
        )
    ),
)


@fuzzed
@given(POSITIONS)
def test_positions(text: str) -> None:
    for parse in (parsing.starting_offsets, parsing.ending_offsets, parsing.timestamps):
        found: Any = accepted(parse, "o", text, errors=ConfigError)
        if isinstance(found, dict):
            numbers = [number for row in found.values() for number in row.values()]
            assert all(-(2**63) <= number < 2**63 for number in numbers)


@fuzzed
@given(ASSIGNED)
def test_assigned_partitions(text: str) -> None:
    found = accepted(parsing.assignment, "o", text, errors=ConfigError)
    assert found is None or all(0 <= p < 2**31 for row in found.values() for p in row)


@fuzzed
@given(texts)
def test_single_values(text: str) -> None:
    parsers: tuple[Callable[[str, str], Any], ...] = (
        parsing.servers, parsing.urls, parsing.topics, parsing.pattern, parsing.timestamp, parsing.boolean,
        parsing.positive, parsing.natural, parsing.duration, parsing.writer, parsing.writer_and_batch, parsing.topic_name,
    )  # fmt: skip
    for parse in parsers:
        accepted(parse, "o", text, errors=ConfigError)
    assert parsing.printable(text).isprintable()
    parsing.is_http_url(text)
    parsing.without_user(text)
    parsing.is_loopback(text)


@fuzzed
@given(st.sampled_from(["job:17", "j:", ":1", "a:b:1"]) | st.tuples(texts, texts).map(":".join))
def test_a_batch_of_a_writer(text: str) -> None:
    found = accepted(parsing.writer_and_batch, "o", text, errors=ConfigError)
    assert found is None or isinstance(found[1], int)


OPTIONS = st.dictionaries(
    st.sampled_from(
        [*option_names.names(), "kafka.client.id", "kafka.sasl.jaas.config", "kafka.ssl.truststore.location"]
    )
    | texts,
    values,
    max_size=4,
)


@fuzzed
@given(OPTIONS)
def test_options_of_the_format(options: dict[str, str]) -> None:
    for parse in (source_options, batch_options, sink_options):
        accepted(parse, BASE | {"subscribe": "t"} | options, errors=ConfigError)
        accepted(parse, options, errors=ConfigError)


CLIENT = {"bootstrap.servers": "h:1", "controller.url": "http://localhost:8090"}
CONF = st.dictionaries(
    st.sampled_from(
        [
            *NAMES, "controller.url", "commit.interval.ms", "commit.max.records", "client.id", "sasl.jaas.config", "group.id",
            "message.max.bytes", "transaction.timeout.ms", "queue.buffering.max.kbytes", "auto.commit.interval.ms",
            "buffer.memory", "delivery.timeout.ms", "ssl.truststore.location", "topic.metadata.refresh.interval.ms",
        ]
    )
    | texts,
    st.one_of(texts, st.integers(), st.floats(), st.booleans(), st.none()),
    max_size=3,
)  # fmt: skip


@fuzzed
@given(CONF)
def test_configuration_of_the_plain_clients(conf: dict[str, Any]) -> None:
    accepted(producer_options, CLIENT | conf, errors=ConfigError)
    accepted(consumer_options, CLIENT | {"group.id": "g"} | conf, errors=ConfigError)


KAFKA = st.dictionaries(
    st.sampled_from(
        [
            *java_names.RENAMED,
            *java_names.FIXED,
            *java_names.REFUSED,
            *java_security.MEANING,
            "sasl.mechanism",
            "client.id",
        ]
    )
    | texts,
    st.one_of(
        JAAS,
        texts,
        st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "PEM", "JKS", "/dev/null", "/"]),
    ),
    max_size=4,
)


@fuzzed
@given(KAFKA)
def test_properties_of_javas_clients(properties: dict[str, str]) -> None:
    accepted(java_names.translated, properties, "kafka.", errors=ConfigError)


@fuzzed
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "bootstrap.servers",
                "security.protocol",
                "sasl.mechanism",
                "sasl.username",
                "sasl.password",
                "ssl.ca.location",
            ]
        )
        | texts,
        texts | st.sampled_from(["h:1", "SSL", "SASL_SSL", "PLAIN"]),
        max_size=5,
    )
)
def test_the_controllers_own_login(properties: dict[str, str]) -> None:
    accepted(checked, {"bootstrap.servers": "h:1"} | properties, errors=ConfigError)


@fuzzed
@given(st.dictionaries(st.sampled_from(NAMES), texts, max_size=4))
def test_credentials(given_values: dict[str, str]) -> None:
    found = accepted(controller_credentials, given_values, "https://h:1", errors=ConfigError)
    if found is not None:
        header = found.authorization
        assert header is None or header.encode("latin-1")
        connection = Connection({"bootstrap.servers": "h:1"}, "https://h:1", found)
        for secret in (found.password, found.token, found.key_password, found.key_pem):
            assert secret is None or len(secret) < 12 or secret not in repr(connection)


@fuzzed
@given(
    st.one_of(
        texts, st.lists(names | texts.map(lambda text: f"^{text}"), max_size=3), st.none(), st.integers()
    )
)
def test_a_subscription(topics: Any) -> None:
    accepted(_parsed, topics, errors=ConfigError)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("controllerTimeout", "9999999999999999d"),
        ("acceptReplayMismatch", "job:" + "9" * 5000),
        ("acceptReplayMismatch", "job:٣"),
        ("writer", "a\0b"),
        ("writer", "\ud800"),
        ("kafka.client.id", "a\0b"),
        ("kafka.buffer.memory", "9" * 5000),
        ("kafka.ssl.truststore.location", "/\0"),
    ],
)
def test_the_refused_option_is_named(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^option {option} has the value"):
        sink_options(BASE | {"topic": "t", option: value})


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("startingOffsets", '{"t":{"0":1,"0":5}}', "the name '0' is there twice"),
        ("startingOffsets", '{"t":{"0":NaN}}', "NaN"),
        ("startingOffsets", "[" * 5000, "nested too deeply|recursion limit"),
        ("subscribePattern", "a{99999999999999999}", "the repetition number is too large"),
        ("subscribePattern", "(" * 3000, "recursion"),
    ],
)
def test_the_reason_is_said(option: str, value: str, said: str) -> None:
    options = BASE | ({} if option == "subscribePattern" else {"subscribe": "t"}) | {option: value}
    with pytest.raises(ConfigError, match=said):
        source_options(options)


@pytest.mark.parametrize(
    "name", ["sasl.passwrd", "sasl.oauthbearer.client.secrt", "ssl.key.pasword", "sasl.jas.config"]
)
def test_a_misspelt_secret_is_not_shown(name: str) -> None:
    with pytest.raises(ConfigError, match="No such configuration property") as refused:
        producer_options(CLIENT | {name: "canary"})
    assert "canary" not in str(refused.value)


def test_a_refused_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        sink_options(BASE | {"topic": "t", "kafka.sasl.password": "canary\0canary"})
    assert "canary" not in str(refused.value)
