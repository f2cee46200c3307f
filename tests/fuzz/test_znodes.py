"""Znodes of every kind, as a broken disk or somebody without rights may leave them."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.state.reviews import review_view
from spark_ordered_kafka.controller.zk import records
from spark_ordered_kafka.controller.zk.records import Record, UnreadableRecordError, dump, number, parse
from tests.fuzz.hostile import NUMBERS, accepted, contents, fuzzed, texts
from tests.recorded.files import KINDS, ZNODES, kind_of, read

VALID: dict[type[Record], list[Any]] = {}
for _path in ZNODES:
    _told = read(_path)
    VALID.setdefault(kind_of(_told["path"]), []).append(_told["data"])


@st.composite
def znodes(draw: st.DrawFn) -> tuple[type[Record], bytes]:
    kind = draw(st.sampled_from(sorted(VALID, key=lambda one: one.__name__)))
    return kind, draw(contents(VALID[kind]))


def test_every_kind_is_tried() -> None:
    assert set(KINDS.values()) == set(VALID)


@fuzzed
@given(znodes())
def test_a_znode_holds_a_record_or_says_that_it_does_not(znode: tuple[type[Record], bytes]) -> None:
    kind, data = znode
    record = accepted(parse, kind, data, "/a", errors=UnreadableRecordError)
    if record is not None:
        written = dump(record)
        again = parse(kind, written, "/a")
        assert again == record
        assert dump(again) == written
        assert isinstance(record.is_newer, bool)


@fuzzed
@given(st.sampled_from(NUMBERS) | texts, st.binary(max_size=10))
def test_names_and_contents_that_are_numbers(text: str, data: bytes) -> None:
    found = accepted(number, text, "/a", errors=UnreadableRecordError)
    assert found is None or str(found) == text
    found = accepted(number, data, "/a", errors=UnreadableRecordError)
    assert found is None or b"%d" % found == data


def test_little_gzip_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_LARGEST", 1_000_000)
    bomb = gzip.compress(b" " * 1_000_001)
    assert len(bomb) < 2_000
    kind = next(iter(VALID))
    with pytest.raises(UnreadableRecordError, match="has more than 1000000 bytes"):
        parse(kind, bomb, "/a")


@pytest.mark.parametrize("member", ["1e999", "NaN", "[1e400]", "-Infinity"])
def test_what_would_be_written_as_null_is_not_read(member: str) -> None:
    kind = next(iter(VALID))
    with pytest.raises(UnreadableRecordError):
        parse(kind, b'{"member_of_later":%s}' % member.encode(), "/a")


def test_a_review_is_shown_whatever_its_body_was() -> None:
    reviews = next(kind for kind in VALID if kind.__name__ == "ReviewRecord")
    for content in VALID[reviews]:
        record = parse(reviews, content_of(content), "/a")
        assert review_view(1, record, "pending").review_id == 1  # type: ignore[arg-type]


def content_of(content: Any) -> bytes:
    import json

    return json.dumps(content).encode()
