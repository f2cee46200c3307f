"""Options: right ones parse, wrong ones are refused by name, with value and remedy."""

import pytest

from spark_ordered_kafka.config import (
    EARLIEST,
    LATEST,
    Connection,
    check_defaults,
    masked,
    sink_options,
    source_options,
)
from spark_ordered_kafka.errors import ConfigError

BASE = {"kafka.bootstrap.servers": "h1:9092, h2:9093", "controller.url": "http://c:8090"}
SOURCE = BASE | {"subscribe": "orders"}


def test_source_defaults_are_those_of_sparks_kafka_format() -> None:
    options = source_options(SOURCE)
    assert options.topics == ("orders",)
    assert (options.starting, options.ending) == (None, LATEST)
    assert options.fail_on_data_loss
    assert options.max_offsets_per_trigger is None
    assert not options.include_headers
    assert options.connection.bootstrap_servers == "h1:9092,h2:9093"


def test_names_are_case_insensitive_and_values_are_parsed() -> None:
    options = source_options(
        SOURCE
        | {
            "StartingOffsets": ' {"orders":{"0":23,"1":-2}}',
            "endingoffsets": '{"orders":{"0":-1}}',
            "FAILONDATALOSS": "False",
            "maxoffsetspertrigger": "10",
            "subscribe": "a, b,a",
            "kafka.group.id": "G",
        }
    )
    assert options.starting == {"orders": {0: 23, 1: EARLIEST}}
    assert options.ending == {"orders": {0: LATEST}}
    assert options.topics == ("a", "b")
    assert (options.fail_on_data_loss, options.max_offsets_per_trigger) == (False, 10)
    assert options.connection.kafka["group.id"] == "G"


@pytest.mark.parametrize("missing", ["kafka.bootstrap.servers", "controller.url", "subscribe"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"option {missing} is missing: set it to"):
        source_options({name: value for name, value in SOURCE.items() if name != missing})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("subscribee", "x", "unknown option subscribee has the value 'x': the source takes"),
        ("topic", "x", "it is not an option of the source"),
        ("minPartitions", "4", "option minPartitions has the value '4': splitting a partition breaks"),
        ("subscribePattern", "a.*", "not supported in this version"),
        ("startingOffsets", "first", "earliest, latest or JSON"),
        ("startingOffsets", '{"orders":{"0":-3}}', "allowed markers"),
        ("startingOffsets", '{"orders":{"x":1}}', "earliest, latest or JSON"),
        ("startingOffsets", "[1]", "earliest, latest or JSON"),
        ("endingOffsets", "earliest", "earliest, latest or JSON"),
        ("endingOffsets", '{"orders":{"0":-2}}', "allowed markers"),
        ("failOnDataLoss", "yes", "true or false"),
        ("maxOffsetsPerTrigger", "0", "a whole number of at least 1"),
        ("maxOffsetsPerTrigger", "-5", "a whole number of at least 1"),
        ("ordering", "strict", "key .default. or none"),
        ("subscribe", "a b", "a topic name has 1 to 249"),
        ("subscribe", " , ", "one topic, or several"),
        ("kafka.bootstrap.servers", "h1", "host:port"),
        ("kafka.bootstrap.servers", "h1:99999", "host:port"),
        ("controller.url", "c:8090", "the controller's address"),
        ("kafka.enable.auto.commit", "true", "positions are kept in the checkpoint"),
        ("kafka.key.deserializer", "x", "cast them in the DataFrame"),
    ],
)
def test_a_wrong_source_option_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source_options(SOURCE | {name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingOffsets", "latest", "it is not an option of the sink"),
        ("topic", "..", "a topic name has"),
        ("writer", "a:b", "without a colon"),
        ("writer", "", "a name of 1 to 200"),
        ("replayBufferBytes", "1g", "a whole number"),
        ("kafka.transactional.id", "mine", "derived from topic, query and task"),
        ("kafka.acks", "1", "transactions need acks=all"),
    ],
)
def test_a_wrong_sink_option_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_options(BASE | {name: value})


def test_defaults_give_way_to_options_and_go_to_their_side() -> None:
    defaults = SOURCE | {"topic": "copy", "maxOffsetsPerTrigger": "5"}
    assert source_options({"MAXOFFSETSPERTRIGGER": "7"}, defaults).max_offsets_per_trigger == 7
    assert sink_options({}, defaults).topic == "copy"
    with pytest.raises(ConfigError, match="unknown option maxoffset "):
        check_defaults({"maxOffset": "1"})


def test_spark_itself_sets_some_options() -> None:
    assert sink_options(BASE | {"path": "x", "checkpointLocation": "/tmp/c"}).topic is None


def test_secrets_are_masked() -> None:
    assert masked({"sasl.password": "p", "client.id": "c"}) == {"sasl.password": "********", "client.id": "c"}
    connection = Connection({"bootstrap.servers": "h:1", "ssl.key.password": "hush"}, "http://c")
    assert "hush" not in str(connection) + repr(connection)
