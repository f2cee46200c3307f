"""Options: right ones parse, wrong ones are refused by name, with value and remedy."""

import pickle
import re
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import ConfigError, ConfigErrors
from spark_ordered_kafka.parsing import EARLIEST, LATEST
from spark_ordered_kafka.spark.option_names import REFUSED
from spark_ordered_kafka.spark.options import (
    Assignment,
    Bound,
    Limits,
    SourceOptions,
    Splitting,
    TopicNames,
    TopicPattern,
    batch_options,
    check_defaults,
    sink_options,
    source_options,
    stream_options,
)
from tests.spark import option_table

BASE = {"kafka.bootstrap.servers": "h1:9092, h2:9093", "controller.url": "http://c:8090"}
SOURCE = BASE | {"subscribe": "orders"}


def test_source_defaults_are_those_of_sparks_kafka_format() -> None:
    options = source_options(SOURCE)
    assert options.subscription == TopicNames(("orders",))
    assert (options.starting, options.ending) == (None, Bound("endingOffsets", LATEST))
    assert options.fail_on_data_loss
    assert options.limits == Limits(max_offsets=None, min_offsets=None, max_delay=900.0)
    assert options.misrouted == "warn"
    assert options.no_match == "error"
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
    assert options.starting == Bound("startingOffsets", {"orders": {0: 23, 1: EARLIEST}})
    assert options.ending == Bound("endingOffsets", {"orders": {0: LATEST}})
    assert options.subscription == TopicNames(("a", "b"))
    assert (options.fail_on_data_loss, options.limits.max_offsets) == (False, 10)
    assert options.connection.kafka["group.id"] == "G"


def given(**changes: str) -> SourceOptions:
    return source_options(SOURCE | changes)


def test_a_time_is_preferred_to_times_and_times_to_offsets() -> None:
    every = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders":{"0":5}}',
        "startingTimestamp": " 7 ",
    }
    assert given(**every).starting == Bound("startingTimestamp", 7, by_time=True)
    del every["startingTimestamp"]
    assert given(**every).starting == Bound("startingOffsetsByTimestamp", {"orders": {0: 5}}, by_time=True)
    assert given(endingOffsets="latest", endingTimestamp="9").ending == Bound(
        "endingTimestamp", 9, by_time=True
    )
    assert given(startingOffsetsByTimestampStrategy="LATEST").no_match == "latest"


def test_what_is_not_preferred_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="option startingOffsets has the value 'first'"):
        given(startingTimestamp="7", startingOffsets="first")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("15m", 900),
        ("2min", 120),
        (" 90S ", 90),
        ("250ms", 0.25),
        ("250", 0.25),
        ("1h", 3600),
        ("2d", 172800),
    ],
)
def test_delays_are_in_sparks_syntax(value: str, seconds: float) -> None:
    assert given(minOffsetsPerTrigger="5", maxTriggerDelay=value).limits == Limits(None, 5, seconds)


def test_the_minimum_may_equal_the_maximum() -> None:
    assert given(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").limits == Limits(5, 5)


def test_a_read_without_order_may_be_split() -> None:
    options = given(ordering="none", minPartitions="4", maxRecordsPerPartition="100")
    assert options.splitting == Splitting(min_partitions=4, max_records=100)


def test_small_reads_share_tasks_unless_they_are_split() -> None:
    assert given().splitting == Splitting(min_records=5_000)
    assert given(minRecordsPerPartition="1").splitting == Splitting(min_records=1)
    with pytest.raises(
        ConfigError, match=r"option minRecordsPerPartition has the value '7': .*both shared and split"
    ):
        given(ordering="none", minPartitions="4", minRecordsPerPartition="7")


def test_patterns_match_whole_names() -> None:
    options = source_options(BASE | {"subscribePattern": " orders-[0-9]+ "})
    assert options.subscription == TopicPattern("orders-[0-9]+")
    names = ("orders-1", "orders-12", "orders-1x", "my-orders-1", "Orders-1")
    assert [name for name in names if TopicPattern("orders-[0-9]+").matches(name)] == [
        "orders-1",
        "orders-12",
    ]


def test_partitions_are_assigned() -> None:
    options = source_options(BASE | {"assign": '{"a":[0,2],"b":[1,1]}'})
    assert options.subscription == Assignment({"a": frozenset({0, 2}), "b": frozenset({1})})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"assign": '{"a":[0]}'},
            "options subscribe and assign .*: only one of subscribe, subscribePattern, assign",
        ),
        ({"subscribePattern": "a"}, "options subscribe and subscribePattern .*: only one of"),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            r"option minOffsetsPerTrigger has the value '6': must not be greater than maxOffsetsPerTrigger \(5\)",
        ),
        (
            {"startingTimestamp": "6", "endingTimestamp": "5"},
            r"option endingTimestamp has the value '5': must not lie before startingTimestamp \(6\)",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":6}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":5}}',
            },
            "option endingOffsetsByTimestamp has the value 'orders-0: 5': must not lie before",
        ),
    ],
)
def test_options_that_contradict_each_other(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        given(**changes)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_refuses_the_end_it_was_given(name: str) -> None:
    value = (
        '{"orders":{"0":5}}'
        if name.endswith("ByTimestamp")
        else "5"
        if name.endswith("Timestamp")
        else "latest"
    )
    with pytest.raises(ConfigError, match=f"option {name} has the value .*: only a batch read has an end"):
        stream_options(SOURCE | {name.upper(): value})
    assert batch_options(SOURCE | {name: value}).ending.option == name
    # Among the defaults of a session it is meant for its batch reads.
    assert stream_options(SOURCE, {name: value}).subscription == TopicNames(("orders",))


@pytest.mark.parametrize(
    ("value", "shown"), [("latest", "'latest'"), ('{"orders":{"0":4,"1":-1}}', "'orders-1: -1'")]
)
def test_a_batch_does_not_start_at_the_end(value: str, shown: str) -> None:
    changed = SOURCE | {"startingOffsets": value}
    with pytest.raises(
        ConfigError, match=f"option startingOffsets has the value {shown}: a batch read starts at"
    ):
        batch_options(changed)
    assert stream_options(changed).starting is not None


@pytest.mark.parametrize("missing", ["kafka.bootstrap.servers", "controller.url", "subscribe"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"option {missing} is missing: set it to"):
        source_options({name: value for name, value in SOURCE.items() if name != missing})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("subscribee", "x", "unknown option subscribee has the value 'x': the source takes"),
        ("topic", "x", "it is not an option of the source"),
        ("minPartitions", "4", "option minPartitions has the value '4': splitting .* set ordering=none"),
        ("maxRecordsPerPartition", "4", "option maxRecordsPerPartition .* splitting a partition breaks"),
        ("startingOffsets", "first", "earliest, latest or JSON"),
        ("startingOffsets", '{"orders":{"0":-3}}', "allowed markers"),
        ("startingOffsets", '{"orders":{"x":1}}', "earliest, latest or JSON"),
        ("startingOffsets", "[1]", "earliest, latest or JSON"),
        ("startingOffsets", "{}", "earliest, latest or JSON"),
        ("startingOffsets", '{"orders":{"1_0":1}}', "earliest, latest or JSON"),
        ("startingOffsets", '{"orders":{"0":true}}', "orders.0: Input should be a valid integer"),
        ("startingOffsets", '{"orders":{"0":99999999999999999999}}', "orders.0: .*less than"),
        ("startingOffsets", '{"orders":{"0":1}', "Invalid JSON: EOF"),
        ("startingTimestamp", "-1", "a whole number of milliseconds since 1970-01-01 UTC, 0 or greater"),
        ("startingTimestamp", "2024-01-01", "a whole number of milliseconds"),
        ("endingTimestamp", "\u0663", "a whole number of milliseconds"),
        ("startingOffsetsByTimestamp", "7", "JSON with milliseconds since 1970-01-01 UTC"),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}', "none negative"),
        ("endingOffsetsByTimestamp", '{"orders":{"0":-2}}', "none negative"),
        ("startingOffsetsByTimestampStrategy", "earliest", "error or latest"),
        ("endingOffsets", "earliest", "'earliest': latest or JSON"),
        ("endingOffsets", '{"orders":{"0":-2}}', "allowed markers"),
        ("failOnDataLoss", "yes", "true or false"),
        ("maxOffsetsPerTrigger", "0", "a whole number of at least 1"),
        ("maxOffsetsPerTrigger", "-5", "a whole number of at least 1"),
        ("minOffsetsPerTrigger", "-5", "a whole number of at least 1"),
        ("minOffsetsPerTrigger", "\u00b2", "a whole number of at least 1"),
        ("maxTriggerDelay", "-5m", "a time such as 15m, 90s or 250ms"),
        ("maxTriggerDelay", "1.5m", "a time such as 15m, 90s or 250ms"),
        ("maxTriggerDelay", "5 weeks", "units: us, ms, s, m, min, h, d"),
        ("misroutedRecords", "drop", "ignore, warn or fail"),
        ("ordering", "strict", "key or none"),
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
        (
            "subscribePattern",
            "a(",
            r"option subscribePattern has the value 'a\(': not a regular expression .* position 1",
        ),
        ("subscribePattern", " ", "a regular expression that matches whole topic names"),
        ("assign", "orders", "JSON that names partitions, such as"),
        ("assign", "{}", "JSON that names partitions, such as"),
        ("assign", '{"orders":[]}', "JSON that names partitions.*orders: .*at least 1 item"),
        ("assign", '{"orders":["0"]}', "JSON that names partitions"),
        ("assign", '{"orders":[-1]}', "JSON that names partitions.*greater than or equal to 0"),
        ("assign", '{"or ders":[0]}', "a topic name has 1 to 249"),
    ],
)
def test_a_wrong_subscription_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source_options(BASE | {name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingOffsets", "latest", "it is not an option of the sink"),
        ("topic", "..", "a topic name has"),
        ("writer", "a:b", "without a colon"),
        ("writer", "", "a name of 1 to 200"),
        ("replayBufferBytes", "1g", "a whole number"),
        ("controllerTimeout", "soon", "a time such as"),
        ("acceptReplayMismatch", "17", "WRITER:BATCH"),
        ("acceptReplayMismatch", "job:", "WRITER:BATCH"),
        ("acceptReplayMismatch", "true", "WRITER:BATCH"),
        ("kafka.transactional.id", "mine", "derived from topic, query and task"),
        ("kafka.acks", "1", "transactions need acks=all"),
    ],
)
def test_a_wrong_sink_option_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_options(BASE | {name: value})


def test_defaults_give_way_to_options_and_go_to_their_side() -> None:
    defaults = SOURCE | {"topic": "copy", "maxOffsetsPerTrigger": "5"}
    assert source_options({"MAXOFFSETSPERTRIGGER": "7"}, defaults).limits.max_offsets == 7
    assert sink_options({}, defaults).topic == "copy"
    with pytest.raises(ConfigError, match="unknown option maxoffset "):
        check_defaults({"maxOffset": "1"})


def test_an_option_replaces_defaults_that_say_otherwise() -> None:
    defaults = SOURCE | {"startingTimestamp": "7", "endingTimestamp": "9"}
    options = source_options({"assign": '{"a":[0]}', "startingOffsets": "earliest"}, defaults)
    assert options.subscription == Assignment({"a": frozenset({0})})
    assert options.starting == Bound("startingOffsets", EARLIEST)
    assert options.ending.option == "endingTimestamp"


def test_an_accepted_mismatch_names_writer_and_batch() -> None:
    assert sink_options(BASE | {"acceptReplayMismatch": " job:17 "}).accepted_mismatch == ("job", 17)
    assert sink_options(BASE).accepted_mismatch is None


def test_spark_itself_sets_some_options() -> None:
    assert sink_options(BASE | {"path": "x", "checkpointLocation": "/tmp/c"}).topic is None


def test_the_documentation_is_made_of_the_options() -> None:
    documented = Path(__file__).parents[2] / "docs" / "options.md"
    assert documented.read_text() == option_table.page(), option_table.__doc__


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = {
        "subscribe": "orders",
        "subscribePattern": "a",
        "startingOffsets": "first",
        "failOnDataLoss": "maybe",
        "minPartitions": "4",
        "groupIdPrefix": "mine",
        "kafka.acks": "1",
        "kafka.group.protocol": "consumer",
        "endingTimestamp": "5",
        "offsets": "1",
    }
    with pytest.raises(ConfigErrors) as caught:
        stream_options(wrong)
    assert {error.option for error in caught.value.errors} == {
        "options subscribe and subscribePattern",
        "option startingOffsets",
        "option failOnDataLoss",
        "option minPartitions",
        "option groupIdPrefix",
        "option kafka.acks",
        "option kafka.group.protocol",
        "option kafka.bootstrap.servers",
        "option controller.url",
        "option endingTimestamp",
        "unknown option offsets",
    }
    assert pickle.loads(pickle.dumps(caught.value)).errors[0].option == caught.value.errors[0].option


@pytest.mark.parametrize("name", REFUSED)
def test_options_of_spark_that_mean_nothing_here_say_what_to_do(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"option {name} has the value '3': {REFUSED[name]}")):
        source_options(SOURCE | {name: "3"})


def test_the_wait_for_a_broker_is_sparks_option() -> None:
    assert given().poll_timeout == 60.0
    assert source_options(SOURCE | {"kafkaconsumer.polltimeoutms": "1500"}).poll_timeout == 1.5


def test_properties_of_java_are_translated() -> None:
    kafka = source_options(SOURCE | {"kafka.fetch.max.wait.ms": "7", "kafka.acks": "all"}).connection.kafka
    assert kafka == {"bootstrap.servers": "h1:9092,h2:9093", "fetch.wait.max.ms": "7"}
