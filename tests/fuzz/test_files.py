"""Files that commands and controllers are given."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.cli.command_config import connection, read_all
from spark_ordered_kafka.cli.json_files import read_json
from spark_ordered_kafka.cli.leaders import _read
from spark_ordered_kafka.cli.lists import parse_ids
from spark_ordered_kafka.cli.load_files import from_csv, from_shape
from spark_ordered_kafka.cli.reassign_files import read_partitions
from spark_ordered_kafka.cli.reassign_texts import assignment
from spark_ordered_kafka.cli.replicas import parse_assignment
from spark_ordered_kafka.cli.times import parse_datetime, parse_duration
from spark_ordered_kafka.cli.topic_filters import chosen
from spark_ordered_kafka.cli.units import shown_seconds, shown_time
from spark_ordered_kafka.client.schemas import PartitionAssignment, ReplicaLogDirsRequest
from spark_ordered_kafka.controller.access import tokens
from spark_ordered_kafka.controller.access.certificates import principal_of
from spark_ordered_kafka.controller.access.roles import role_table
from spark_ordered_kafka.controller.automation.rules import QuietHours
from spark_ordered_kafka.controller.config import controller_config, read_file
from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.kafka.java_security import translated
from spark_ordered_kafka.local.state import FILE_NAME, load
from tests.fuzz.hostile import accepted, contents, fuzzed, names, raw, texts

REASSIGNMENT = {
    "version": 1,
    "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}],
}
LOG_DIRS = {"replicas": [{"topic": "orders", "partition": 0, "broker": 1, "log_dir": "/d"}]}
ELECTION = {"partitions": [{"topic": "orders", "partition": 1}]}
CLUSTER = {
    "version": 1, "cluster_id": "c", "kafka_version": "4.3.1", "racks": None, "broker_config": {}, "servers": [
        {"kind": "broker", "id": 1, "port": 9092, "process": None}
    ],
}  # fmt: skip


@contextmanager
def file(content: bytes, name: str = "file") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        yield path


@fuzzed
@given(contents([REASSIGNMENT]))
def test_kafkas_json_of_a_reassignment(content: bytes) -> None:
    rows = accepted(read_partitions, io.BytesIO(content), errors=ConfigError)
    if rows:
        shown = [
            PartitionAssignment(
                topic=row.topic,
                partition=row.partition,
                replicas=row.replicas,
                log_dirs=row.log_dirs or ["any"] * len(row.replicas),
            )
            for row in rows
        ]
        again = read_partitions(io.BytesIO(raw(assignment(shown))))
        assert sorted((row.topic, row.partition, row.replicas) for row in again) == sorted(
            (row.topic, row.partition, row.replicas) for row in rows
        )


@fuzzed
@given(contents([LOG_DIRS]))
def test_moves_between_log_directories(content: bytes) -> None:
    accepted(read_json, ReplicaLogDirsRequest, io.BytesIO(content), "--json-file", errors=ConfigError)


@fuzzed
@given(contents([ELECTION]))
def test_partitions_of_an_election(content: bytes) -> None:
    with file(content) as path:
        found = accepted(_read, path, errors=ConfigError)
    assert found is None or all(0 <= number < 2**31 for _, number in found)


@fuzzed
@given(contents([CLUSTER]))
def test_the_state_of_a_local_cluster(content: bytes) -> None:
    with file(content, FILE_NAME) as path:
        accepted(load, path.parent, errors=LocalClusterError)


LINES = st.lists(
    st.one_of(
        texts,
        st.tuples(
            st.sampled_from(
                ["controller.url", "controller.token", "controller.password", "sasl.mechanism", "ssl.ca"]
            ),
            st.sampled_from(["=", ":", " "]),
            texts | st.sampled_from(["\\ud800", "\\u0000", "\\uZZZZ", "\\"]),
        ).map("".join),
    ),
    max_size=4,
).map("\n".join)


@fuzzed
@given(st.one_of(LINES.map(raw), st.binary(max_size=60)))
def test_a_properties_file(content: bytes) -> None:
    with file(content) as path:
        accepted(read_all, path, errors=ConfigError)
        accepted(connection, "http://localhost:1", path, errors=ConfigError)


@fuzzed
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30))
def test_a_written_property_is_read_back(value: str) -> None:
    with file(javaproperties.dumps({"sasl.password": value}, timestamp=False).encode()) as path:
        assert read_all(path)[1] == {"sasl.password": value}


TOML_VALUES = st.one_of(
    texts.map(json.dumps),
    st.sampled_from(
        [
            "1", "-1", "1e999", "nan", "inf", "9" * 5000, "true", "1979-05-27", "[" * 2000, "[" * 200 + "]" * 200,
            "{a=" * 500, "[[1]]", '"${env:NAME}"', '"${file:/nowhere}"', '"${file:\\u0000}"', '"${file:/}"', "0x7fffffffffffffffff",
        ]
    ),
)  # fmt: skip
KEYS = (
    "host", "port", "advertised.url", "zookeeper.connect", "kafka.bootstrap.servers", "kafka.sasl.password", "allowed.hosts",
    "zookeeper.digest.password", "authorization.super.users", "autoscale.topics", "autoscale.quiet.hours", "audit.log.file",
    '"zookeeper.connect"', "ssl.certificate.location", "ssl.key.location", "change.drain.timeout.ms", "a." * 1500 + "a",
)  # fmt: skip
TOML = st.one_of(
    texts.map(raw),
    st.binary(max_size=60),
    st.lists(st.tuples(st.sampled_from(KEYS), TOML_VALUES).map(" = ".join), max_size=4).map(
        lambda lines: raw("\n".join(['zookeeper.connect = "h:1"', 'kafka.bootstrap.servers = "h:1"', *lines]))
    ),
    st.sampled_from(
        [b"[a." + b"a." * 3000 + b"a]", b"[" * 3000, b'[zookeeper]\nconnect="a"\n["zookeeper.connect"]\n']
    ),
)


@fuzzed
@given(TOML)
def test_a_controllers_configuration(content: bytes) -> None:
    with file(content) as path:
        entries = accepted(read_file, path, {"NAME": "a\0b"}, errors=ConfigError)
    if entries is not None:
        accepted(
            lambda given_entries: controller_config(given_entries, default_host="h"),
            entries,
            errors=ConfigError,
        )


GRANTS = st.one_of(
    texts,
    st.lists(
        st.tuples(st.sampled_from(["role", "principals", "topics", "x"]), TOML_VALUES).map(" = ".join),
        max_size=3,
    ).map(lambda lines: "\n".join(["[[grants]]", *lines])),
    st.sampled_from(["[a." + "a." * 3000 + "a]", "grants = " + "[" * 900 + "]" * 900]),
)


@fuzzed
@given(GRANTS)
def test_a_file_of_roles(text: str) -> None:
    accepted(role_table, text, errors=ConfigError)


@fuzzed
@given(
    st.lists(
        texts
        | st.builds(
            lambda digits, name: f"sha256:{digits} User:{name}", st.text("0123456789abcdefABCDEF"), texts
        )
    ).map("\n".join)
)
def test_a_file_of_tokens(text: str) -> None:
    for entry in accepted(tokens.parse, text, errors=ConfigError) or ():
        assert tokens.parse(str(entry)) == (entry,)


@fuzzed
@given(texts)
def test_times_and_lists(text: str) -> None:
    for parse in (parse_datetime, parse_duration, parse_ids, QuietHours.parse):
        accepted(parse, "o", text, errors=ConfigError)
    found = accepted(parse_assignment, text, errors=ConfigError)
    assert found is None or all(0 <= broker < 2**31 for row in found.values() for broker in row)
    accepted(chosen, ["orders", "payments"], [text], errors=ConfigError)


@fuzzed
@given(
    st.datetimes(timezones=st.timezones() | st.none()).map(lambda at: at.isoformat())
    | st.sampled_from(["0001-01-01T00:00+23:59", "9999-12-31T23:59-23:59"])
)
def test_times_of_iso_8601(text: str) -> None:
    accepted(parse_datetime, "o", text, errors=ConfigError)


@fuzzed
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_time_of_an_answer_is_shown(seconds: float) -> None:
    assert shown_time(seconds)
    assert shown_seconds(seconds)


POINTS = st.lists(
    texts
    | st.builds(
        lambda at, unit, rate, size: f"{at}{unit}:{rate}{size}",
        texts,
        st.sampled_from("smhd"),
        texts,
        st.sampled_from(["B", "MB", "GiB"]),
    ),
    max_size=4,
).map(",".join)


@fuzzed
@given(POINTS)
def test_the_shape_of_a_load(text: str) -> None:
    points = accepted(from_shape, text, 1000, errors=ConfigError)
    assert points is None or all(0 <= number < 1e18 for point in points for number in point)


ROWS = st.lists(st.lists(texts | names, max_size=5).map(",".join), max_size=4)


@fuzzed
@given(
    st.sampled_from(
        ["time,bytes_per_second", "time,time,bytes_per_second", "time,bytes_per_second,hot_key_share", ""]
    ),
    ROWS,
)
def test_a_load_in_a_file(head: str, rows: list[str]) -> None:
    with file(raw("\n".join([head, *rows]))) as path:
        points = accepted(from_csv, path, 1000, errors=ConfigError)
    assert points is None or all(0 <= abs(number) < 1e18 for point in points for number in point)


STORES = st.builds(
    lambda magic, rest: magic + rest,
    st.sampled_from(
        [b"", b"\xfe\xed\xfe\xed", b"-----BEGIN CERTIFICATE-----\n", b"\x30", b"\x30\x82\x01\x00\x02\x01\x03"]
    ),
    st.binary(max_size=80),
)


@fuzzed
@given(STORES, texts | st.none(), st.sampled_from(["truststore", "keystore"]))
def test_a_store_of_certificates(content: bytes, password: str | None, kind: str) -> None:
    with file(content) as path:
        given_properties = {f"ssl.{kind}.location": str(path)}
        if password is not None:
            given_properties["ssl.truststore.password"] = password.replace("\ud800", "").replace("\udcff", "")
        accepted(translated, given_properties, "kafka.", errors=ConfigError)


@fuzzed
@given(STORES)
def test_a_clients_certificate(content: bytes) -> None:
    accepted(principal_of, content, errors=ValueError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "9" * 5000, "is not TOML: "),
        ("a = " + "[" * 3000, "is not TOML: it is nested too deeply"),
        ("a." * 3000 + "a = 1", "is not TOML: it is nested too deeply"),
        ('x = "${file:\\u0000}"', "^x has the value .* cannot be read"),
        ('"zookeeper.connect" = "a"\n[zookeeper]\nconnect = "b"', "^zookeeper.connect .* it is there twice"),
    ],
)
def test_what_is_wrong_in_a_configuration_is_said(text: str, said: str) -> None:
    with file(text.encode()) as path, pytest.raises(ConfigError, match=said):
        read_file(path, {})


def test_two_members_of_one_name_are_refused() -> None:
    content = b'{"version":1,"partitions":[],"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'
    with pytest.raises(ConfigError, match="the name 'partitions' is there twice"):
        read_partitions(io.BytesIO(content))
