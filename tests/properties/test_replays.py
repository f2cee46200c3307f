"""Micro-batches replayed with tasks and topics of any kind, against a model of Spark's attempts: exact, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ReplayMismatchError
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, Origin
from spark_ordered_kafka.kafka.replay import Claim, complaint, entries_of_others, mismatch, refusal

# A row is its topic and its value; several rows may be equal.
Row = tuple[str, int]
TOPICS = ("a", "b", "c")
rows = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 3)), min_size=1, max_size=12)


@dataclass
class Kafka:
    """What is committed: records, and the last entry of each ledger."""

    records: Counter[Row] = field(default_factory=Counter)
    ledgers: dict[WriterTask, LedgerEntry] = field(default_factory=dict)


def tasks_of(batch: Sequence[Row], spread: Sequence[int]) -> dict[int, list[Row]]:
    """The rows of each task; ``spread`` names the task of each row."""
    tasks: dict[int, list[Row]] = {task: [] for task in range(max(spread) + 1)}
    for row, task in zip(batch, spread, strict=True):
        tasks[task].append(row)
    return tasks


def run(kafka: Kafka, claim: Claim, tasks: Mapping[int, Sequence[Row]], commits: int) -> None:
    """An attempt of which ``commits`` transactions succeed before it dies; raises ReplayMismatchError if refused."""
    covered: set[WriterTask] = set()
    topics: set[str] = set()
    for task, given_rows in tasks.items():
        by_topic: dict[str, list[Row]] = {}
        for row in given_rows:
            by_topic.setdefault(row[0], []).append(row)
        ledgers = {WriterTask(topic, claim.writer, task): found for topic, found in by_topic.items()}
        replayed = {ledger for ledger in ledgers if compare(kafka, claim, ledger, ledgers[ledger])}
        own = {ledger: entry for ledger, entry in kafka.ledgers.items() if ledger.task == task}
        judge(own, set(ledgers), set(by_topic), claim)
        for ledger in ledgers.keys() - replayed:
            if commits == 0:
                raise ConnectionError("the driver died")
            commits -= 1
            kafka.records.update(ledgers[ledger])
            kafka.ledgers[ledger] = LedgerEntry(claim.sequence, fingerprint(ledgers[ledger]), claim.origin)
        covered |= ledgers.keys()
        topics |= by_topic.keys()
    judge(kafka.ledgers, covered, topics, claim)


def compare(kafka: Kafka, claim: Claim, ledger: WriterTask, found: Sequence[Row]) -> bool:
    """Whether the ledger has the rows of this task already."""
    entry = kafka.ledgers.get(ledger)
    if entry is None or entry.sequence < claim.sequence:
        return False
    why = refusal(entry, ledger.name, claim) or mismatch(entry, ledger.name, claim, fingerprint(found))
    if why is not None:
        raise ReplayMismatchError(why)
    return True


def judge(
    ledgers: Mapping[WriterTask, LedgerEntry], covered: set[WriterTask], topics: set[str], claim: Claim
) -> None:
    """What the sink looks for beside a task's own ledgers."""
    others = {ledger: entry for ledger, entry in ledgers.items() if ledger not in covered}
    for ledger, entry in entries_of_others(others, topics, claim).items():
        raise ReplayMismatchError(refusal(entry, ledger.name, claim) or complaint(ledger, entry, claim))


def fingerprint(found: Sequence[Row]) -> Fingerprint:
    return Fingerprint().add([None] * len(found), [str(value).encode() for _, value in found])


def attempt(run_id: str, sequence: int = 7) -> Claim:
    return Claim("w", sequence, Origin("query", run_id, f"execution of {run_id}", by_column=True))


@given(rows, st.data())
def test_a_replay_is_exact_or_refused(batch: list[Row], data: st.DataObject) -> None:
    spreads = st.lists(st.integers(0, 5), min_size=len(batch), max_size=len(batch))
    kafka = Kafka()
    for number in range(data.draw(st.integers(1, 4))):
        tasks = tasks_of(batch, data.draw(spreads))
        try:
            run(kafka, attempt(f"run {number}"), tasks, commits=data.draw(st.integers(0, 20)))
        except (ConnectionError, ReplayMismatchError):
            continue
        assert kafka.records == Counter(batch)


@pytest.mark.long
@given(rows, st.data())
def test_a_replay_by_the_same_tasks_is_never_refused(batch: list[Row], data: st.DataObject) -> None:
    tasks = tasks_of(batch, data.draw(st.lists(st.integers(0, 5), min_size=len(batch), max_size=len(batch))))
    kafka = Kafka()
    run(kafka, attempt("run before", 6), tasks, commits=20)
    for number in range(3):
        try:
            run(kafka, attempt(f"run {number}"), tasks, commits=data.draw(st.integers(0, 3)))
        except ConnectionError:
            continue
    run(kafka, attempt("last run"), tasks, commits=20)
    assert kafka.records == Counter(batch + batch)
    run(kafka, attempt("last run", 8), tasks, commits=20)


@given(rows, rows)
def test_a_second_write_of_a_run_is_refused_before_it_adds_anything(
    first: list[Row], second: list[Row]
) -> None:
    kafka = Kafka()
    run(kafka, attempt("run"), {0: first}, commits=20)
    before = Counter(kafka.records)
    claim = Claim("w", 7, Origin("query", "run", "another execution", by_column=True))
    with pytest.raises(ReplayMismatchError, match="another write of this batch"):
        run(kafka, claim, {0: second}, commits=20)
    assert kafka.records == before
