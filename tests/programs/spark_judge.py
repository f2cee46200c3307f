"""The model that Spark programs are judged by: what is in the targets, and which errors a run may end in. No I/O.

It knows what docs/spark.md, docs/guarantees.md and docs/operating.md promise: each record once, in the order of its key, or an
error that names a reason which there was. What an error of a replay has let pass twice, or lost where the operator
accepted that, is excused for the records of that one batch.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.programs.books import Record, Tp
from tests.programs.spark_steps import SECOND, SOURCE, Job, Read, Run, SparkStep, Tamper

INJECTED = "program's own fault"
LOSS = "DataLossError"
OLDER = "the checkpoint is older than what was written"
OTHER_QUERY = "of another query"
SAME_NAME = "by another write of this batch under the same name"
RENAMED = "The query had the name"
MISMATCH = r"that are not the \d+ rows it committed|rows of batch \d+ in an earlier attempt"
TWO_DRIVERS = "CONCURRENT_STREAM_LOG_UPDATE|concurrently using"
DIED = "worker exited unexpectedly|crashed"
MISSING = "UNKNOWN_TOPIC_OR_PARTITION: topic .* does not exist"
BUSY = "failed to connect back|CANNOT_OPEN_SOCKET"
"""A Python process did not start within Spark's ten seconds: the machine is busy."""

Logs = Mapping[str, Sequence[Record]]
Row = tuple[str | None, str, str | None]
"""Key, value and the header with the number."""


@dataclass(frozen=True)
class Standing:
    """How far a checkpoint is: the last planned batch, whether it is committed, where it begins and ends.

    Topics are named by their ids, here and in the records of sources.
    """

    batch: int = -1
    committed: bool = True
    begin: Mapping[Tp, int] = field(default_factory=dict)
    end: Mapping[Tp, int] = field(default_factory=dict)

    def is_read(self, record: Record) -> bool:
        """Whether the record is in a batch that is committed."""
        return record.offset < (self.end if self.committed else self.begin).get(record.tp, 0)

    def has(self, record: Record) -> bool:
        """Whether the record is in the batch that is planned and not committed."""
        return not self.is_read(record) and record.offset < self.end.get(record.tp, 0)

    def knows(self, topic: str) -> bool:
        """Whether it has positions of the topic."""
        return any(known == topic for known, _ in self.end)


@dataclass
class Attempts:
    """How a batch was run: divisions into tasks, and writer names, each with whether two topics shared it.

    ``other_input``: perhaps with other rows.
    """

    tasks: list[tuple[str, bool]] = field(default_factory=list)
    names: set[tuple[str | None, bool]] = field(default_factory=set)
    other_input: bool = False


class SparkJudge:
    """Enters what was done to a job, and notes each promise that was broken in :attr:`violations`."""

    def __init__(self, job: Job) -> None:
        self.violations: list[str] = []
        self.standing = Standing()
        self.is_older = False
        """Whether the checkpoint is a copy from before what was written."""
        self.batches: dict[int, Attempts] = defaultdict(Attempts)
        self._job = job
        self._name = "w0" if job.named else None
        self._records: dict[str, Record] = {}
        self._gone: set[str] = set()
        self._dropped: set[str] = set()
        self._is_missing = False
        self._unordered: set[str] = set()
        self._excused: set[str] = set()
        self._tainted: set[str] = set()
        self._before: Logs = {}
        self._logs: Logs = {}
        self._reused = False
        self._copied: Standing | None = None
        self._aside: Standing | None = None
        self._strayed: set[str] = set()
        self._number = 0

    # -- what happens -------------------------------------------------------------------------------------------

    def wrote(self, record: Record) -> None:
        """A record was written to the source."""
        self._records[record.number] = record

    def deleted(self, topic: str, lows: Mapping[int, int]) -> None:
        """A source begins at these offsets now."""
        self._gone |= {
            n
            for n, one in self._records.items()
            if one.topic == topic and one.offset < lows.get(one.partition, 0)
        }

    def created(self) -> None:
        """A source was created."""
        self._is_missing = False

    def dropped(self, topic: str) -> None:
        """A source was deleted."""
        self._dropped.add(topic)
        self._is_missing = True
        self._gone |= {n for n, one in self._records.items() if one.topic == topic}

    def named(self, name: str | None) -> None:
        """The query's writes have this name from now on."""
        self._reused = self._reused and name == self._name
        self._name = name

    def tampered(self, step: Tamper, standing: Standing) -> None:
        """Something was done to the checkpoint, which stands like this now."""
        if step.what == "copy":
            self._copied = self.standing if self.standing.batch >= 0 else None
        elif step.what == "restore" and self._copied is not None:
            self._aside = self._aside or self.standing
            self.is_older = self.is_older or self._copied != self.standing
        elif step.what == "newest" and self._aside is not None:
            self.is_older, self._aside = False, None
            self._tainted |= self._strayed
        elif step.what.startswith("delete"):
            self._begin_again(reused=step.what == "delete and keep writer")
        self.standing = standing

    def _begin_again(self, *, reused: bool) -> None:
        wrote = any(self._found(topic, mark) for topic, mark in self._slots())
        self._reused = self._job.named and (self._reused or wrote) and reused
        self._before = self._logs
        self._copied = self._aside = None
        self.is_older = False
        self._tainted.clear()
        self._strayed.clear()
        self._excused = set(self._gone)
        self.batches.clear()

    # -- runs ---------------------------------------------------------------------------------------------------

    def ran(
        self, run: Run, error: str | None, standing: Standing, logs: Logs, written: Iterable[str]
    ) -> None:
        """A run has ended; ``written``: what was in the source before it, and committed."""
        self._number += 1
        before, self.standing, self._logs = self.standing, standing, logs
        self._enter_attempts(run, before)
        last = self.batches[standing.batch]
        in_flight = {n for n, one in self._records.items() if standing.has(one)}
        # A run that is to skip what is gone has skipped it as soon as it planned; a topic is begun with what it has.
        self._excused |= {
            n
            for n in self._gone
            if not before.is_read(self._records[n])
            and (not run.fail or not before.knows(self._records[n].topic))
        }
        if run.unordered:
            self._unordered |= {n for n, one in self._records.items() if not before.is_read(one)}
        if error is not None:
            self._judge_error(run, error, before)
            if re.search(MISMATCH, error) and (len(set(last.tasks)) > 1 or last.other_input):
                self._tainted |= in_flight
        elif run.event not in ("is stopped", "driver dies"):
            self._judge_success(run, before, standing, written)
        # In foreachBatch several names in one batch are right, so nobody knows that one is new.
        is_renamed = self._job.kind == "halves" and len(self.batches[before.batch].names) > 1
        if run.accept or is_renamed:
            planned_before = {n for n, one in self._records.items() if before.has(one)}
            self._tainted |= planned_before
        if self._aside is not None:
            # A newer checkpoint that is put back knows nothing of these.
            reached = {n for n, one in self._records.items() if standing.is_read(one) or standing.has(one)}
            self._strayed |= {n for n in reached if not self._aside.is_read(self._records[n])}
        if self._aside is not None and not re.search(f"{MISMATCH}|{OLDER}", error or ""):
            self._catch_up(error, standing)
        self._judge_logs()

    def judge_beside(self, run: Run, error: str | None, other: str) -> None:
        """Another driver has run with the same checkpoint, and ended like this; empty: without an error.

        It waited in a batch, while this run may have gone on to the next ones.
        """
        if other and not re.search(f"{TWO_DRIVERS}|{OLDER}|{BUSY}", other):
            self._break(run, f"the other driver raised without a reason: {gist(other)}")
        if not other and error is None:
            self._break(run, "one of two drivers with one checkpoint is to be refused")

    def _enter_attempts(self, run: Run, before: Standing) -> None:
        begun = before.batch if not before.committed else before.batch + 1
        for batch in range(begun, self.standing.batch + 1):
            attempts = self.batches[batch]
            attempts.tasks.append(run.division)
            attempts.names.add((self._name, run.shared and self._job.kind == "halves"))
            attempts.other_input = attempts.other_input or self.is_older
        if any(before.has(self._records[n]) for n in self._gone):
            self.batches[before.batch].other_input = True

    def _catch_up(self, error: str | None, standing: Standing) -> None:
        assert self._aside is not None
        if error is None or standing.batch > self._aside.batch:
            self.is_older, self._aside = False, None

    def _judge_error(self, run: Run, error: str, before: Standing) -> None:
        last = self.batches[self.standing.batch]
        unread = any(not before.is_read(self._records[n]) for n in self._gone)
        shares = run.shared and self._job.kind == "each"
        allowed = {
            INJECTED: run.event in ("task fails", "function fails"),
            DIED: run.event == "worker dies",
            LOSS: run.fail and (unread or any(map(before.knows, self._dropped))),
            OLDER: self.is_older or self._reused,
            OTHER_QUERY: self._reused,
            SAME_NAME: shares,
            RENAMED: self._job.kind in ("sink", "column") and len(last.names) > 1,
            # In a batch that is done again, the second write meets what the first one had committed.
            MISMATCH: len(set(last.tasks)) > 1 or last.other_input or shares,
            MISSING: self._is_missing and self._job.reads == "two",
            TWO_DRIVERS: run.event == "another driver",
            BUSY: True,
        }
        if not any(allowed[pattern] and re.search(pattern, error) for pattern in allowed):
            self._break(run, f"raised without a reason: {gist(error)}")

    def _judge_success(self, run: Run, before: Standing, standing: Standing, written: Iterable[str]) -> None:
        """What has to be there, and what was to be refused."""
        missing = [
            n
            for n in written
            if n not in self._excused | self._tainted and not standing.is_read(self._records[n])
        ]
        # Spark runs a batch that was under way, and with this trigger no other.
        is_one_batch = run.trigger == "once" and not before.committed
        # processAllAvailable() ends while fewer than minOffsetsPerTrigger are there.
        waits = run.trigger == "processingTime" and run.more == "waits for more"
        if missing and not is_one_batch and not waits:
            self._break(run, f"ended without {self._shown(missing)}")
        news = {n for n, one in self._records.items() if standing.is_read(one) and not before.is_read(one)}
        if news - self._gone and self._reused:
            self._break(run, "is to be refused: the writer's name is of a query whose checkpoint was deleted")
        if news - self._gone and run.shared and self._job.kind == "each" and self._job.named:
            self._break(run, "is to be refused: two writes of a batch have one name")

    # -- what is there ------------------------------------------------------------------------------------------

    def read(self, topic: str, rows: Sequence[Row], log: Sequence[Record]) -> None:
        """A batch read gave these rows, where the topic had this."""
        with_headers = topic in (SOURCE, SECOND) or self._job.headers
        for key, value, number in rows:
            if number != (value.removeprefix("b") if with_headers else None):
                self.violations.append(f"{value} of key {key!r} in {topic} has the header {number!r}")
        found = _by_key((key, value) for key, value, _ in rows)
        there = _by_key((one.key, one.number) for one in log)
        for key in found.keys() | there.keys():
            ours, theirs = found.get(key, []), there.get(key, [])
            if key is None:
                ours, theirs = sorted(ours), sorted(theirs)
            if ours != theirs:
                self.violations.append(
                    f"a batch read of {topic} gave {ours} of key {key!r}, and there is {theirs}"
                )

    def _judge_logs(self) -> None:
        for topic, mark in self._slots():
            self._judge_slot(topic, mark)
        for topic, records in self._logs.items():
            for one in records:
                origin = self._records.get(one.number.removeprefix("b"))
                places = () if origin is None else self._job.places(origin.key)
                mark = "b" if one.number.startswith("b") else ""
                if origin is None or one.key != origin.key or (topic.partition("-")[0], mark) not in places:
                    self.violations.append(f"{one} does not belong into {topic}")

    def _judge_slot(self, topic: str, mark: str) -> None:
        found = self._found(topic, mark)
        counts = Counter(found)
        if self._job.is_exact:
            twice = [n for n, count in counts.items() if count > 1 and n not in self._tainted]
            if twice:
                self._break(None, f"{topic}{mark and ' (b)'} has more than once: {self._shown(twice)}")
        due = [
            n
            for n, one in self._records.items()
            if (topic, mark) in self._job.places(one.key)
            and self.standing.is_read(one)
            and n not in self._tainted | self._excused | counts.keys()
        ]
        if due and not self.is_older:
            self._break(
                None, f"{topic}{mark and ' (b)'} lacks {self._shown(due)}, which are in committed batches"
            )
        order = {n: place for place, n in enumerate(self._records)}
        excepted = self._tainted | self._unordered
        by_key: dict[tuple[str, str | None], list[str]] = defaultdict(list)
        for n in dict.fromkeys(found):
            if n not in excepted:
                by_key[self._records[n].topic, self._records[n].key].append(n)
        for (_, key), numbers in by_key.items():
            if key is not None and numbers != sorted(numbers, key=order.__getitem__):
                self._break(None, f"{topic}{mark and ' (b)'} has {numbers} of key {key!r}, in this order")

    def _found(self, topic: str, mark: str) -> list[str]:
        """Numbers of source records that this query, since its checkpoint was deleted, has written there, in their order."""
        name = next((one for one in self._logs if one.partition("-")[0] == topic), None)
        if name is None:
            return []
        before = {(one.partition, one.offset) for one in self._before.get(name, ())}
        numbers = [one.number for one in self._logs[name] if (one.partition, one.offset) not in before]
        return [
            n.removeprefix("b")
            for n in numbers
            if n.startswith("b") == bool(mark) and n.removeprefix("b") in self._records
        ]

    def _slots(self) -> list[tuple[str, str]]:
        return sorted(
            {place for key in (None, "k0", "k1", "k2", "k3", "k4") for place in self._job.places(key)}
        )

    def _shown(self, numbers: Sequence[str]) -> str:
        records = [self._records[n] for n in numbers[:6]]
        return f"{len(numbers)} records: " + ", ".join(
            f"{one.number} ({one.partition}@{one.offset})" for one in records
        )

    def _break(self, run: Run | None, text: str) -> None:
        self.violations.append(f"{run}: {text}" if run is not None else f"after run {self._number}: {text}")


def gist(error: str) -> str:
    """What a task's error says, without Spark's traces and plans."""
    own = re.findall(r"(?:errors|spark_faults)\.(\w+Error: [^\n]+)", error)
    words = " ".join((own[-1] if own else error).split())
    return words if len(words) < 900 else f"{words[:500]} … {words[-380:]}"


def is_busy(error: str) -> bool:
    """Whether the error is the machine's, and says nothing of the query."""
    return re.search(BUSY, error) is not None


def remedy(error: str, judge: SparkJudge, run: Run) -> tuple[SparkStep | None, Run]:
    """What the docs and the error advise: something to do first, and how to run the query then."""
    last = judge.batches[judge.standing.batch]
    tasks, unordered = last.tasks[0] if last.tasks else run.division
    plain = Run(tasks=tasks, unordered=unordered, fail=run.fail)
    if re.search(LOSS, error):
        return None, replace(plain, fail=False)
    if re.search(MISSING, error):
        return Read(SECOND), plain
    if judge.is_older:
        return Tamper("newest"), plain
    if re.search(f"{OTHER_QUERY}|{OLDER}", error):
        return Tamper("delete"), plain
    if re.search(RENAMED, error):
        return Tamper("rename as told"), plain
    if re.search(MISMATCH, error) and run.division == plain.division and not run.shared:
        return None, replace(plain, accept=True)
    return None, plain


def _by_key(rows: Iterable[tuple[str | None, str]]) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = defaultdict(list)
    for key, number in rows:
        found[key].append(number)
    return found
