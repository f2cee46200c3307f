"""What the sink says of ledger entries that are not a replay of its rows."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.kafka.ids import WriterTask, transactional_id
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, Origin
from spark_ordered_kafka.kafka.replay import Claim, entries_of_others, mismatch, refusal, renaming

OURS = Origin("query", "run", "execution")
CLAIM = Claim("w", 7, OURS)
ROWS = Fingerprint(3, 99)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (LedgerEntry(6, ROWS, Origin("other", "run", "x")), None),
        (LedgerEntry(7, ROWS, OURS), None),
        (LedgerEntry(7, ROWS, Origin("query", "earlier", "x")), None),
        (LedgerEntry(7, ROWS, version=1), None),
        (LedgerEntry(7, ROWS, Origin("query", "run", "x")), "another write of this batch.*option writer"),
        (LedgerEntry(7, ROWS, Origin("other", "earlier", "x")), "another query.*option writer"),
        (LedgerEntry(8, ROWS, Origin("query", "earlier", "x")), "checkpoint is older.*option writer"),
        (LedgerEntry(8, ROWS, version=1), "checkpoint is older.*option writer"),
    ],
)
def test_only_an_earlier_run_of_the_query_may_have_written_the_batch(
    entry: LedgerEntry, message: str | None
) -> None:
    found = refusal(entry, "ordered:t:w:0", CLAIM)
    if message is None:
        assert found is None
    else:
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(found)


@pytest.mark.parametrize(
    ("entry", "is_ours"),
    [
        (LedgerEntry(6, ROWS, OURS), False),
        (LedgerEntry(7, ROWS, Origin("other", "earlier", "x")), False),
        (LedgerEntry(7, ROWS, version=1), False),
        (LedgerEntry(7, ROWS, Origin("query", "earlier", "x")), True),
        (LedgerEntry(8, ROWS, OURS), True),
    ],
)
def test_a_batch_that_the_query_wrote_under_another_name(entry: LedgerEntry, is_ours: bool) -> None:
    place = WriterTask("t", "v", 0)
    found = renaming(place, entry, CLAIM)
    assert (found is not None and "set the option writer to v" in found) is is_ours
    assert renaming(place, entry, Claim("w", 7)) is None, "outside of a query"


def test_outside_of_a_run_every_entry_of_the_batch_may_be_a_replay() -> None:
    unknown = Claim("w", 7, Origin("query", "", "execution"))
    assert refusal(LedgerEntry(7, ROWS, Origin("query", "", "x")), "name", unknown) is None


def test_a_mismatch_names_causes_and_the_way_out() -> None:
    entry = LedgerEntry(7, ROWS, Origin("query", "earlier", "x"))
    assert mismatch(entry, "ordered:t:w:0", CLAIM, ROWS) is None
    said = mismatch(entry, "ordered:t:w:0", CLAIM, Fingerprint(2, 1))
    for words in ("2 rows", "3 rows", "repartition", "retention or compaction", "acceptReplayMismatch=w:7"):
        assert words in str(said)


def test_a_repeated_task_of_a_write_of_its_own_gets_no_advice_for_streams() -> None:
    claim = Claim("w", 0, replayable=False)
    said = mismatch(LedgerEntry(0, ROWS, claim.origin), "ordered:t:w:0", claim, Fingerprint(2, 1))
    assert "Spark has run the task a second time" in str(said)
    assert "acceptReplayMismatch" not in str(said)


def test_entries_of_other_topics_count_only_where_rows_name_topics() -> None:
    elsewhere = {
        WriterTask("b", "w", 0): LedgerEntry(7, ROWS, Origin("query", "earlier", "x", by_column=True))
    }
    assert entries_of_others(elsewhere, {"a"}, CLAIM) == {}
    by_column = Claim("w", 7, Origin("query", "run", "execution", by_column=True))
    assert entries_of_others(elsewhere, {"a"}, by_column) == elsewhere
    assert entries_of_others(elsewhere, {"b"}, CLAIM) == elsewhere


def test_a_place_is_found_again_by_its_name() -> None:
    assert WriterTask.of(transactional_id("t.1", "w", 12)) == WriterTask("t.1", "w", 12)
    for other in ("ordered:t:w", "ordered:t:w:x", "my-group", "ordered-offsets:w:t:1", "ordered:t:w:1:2"):
        assert WriterTask.of(other) is None
