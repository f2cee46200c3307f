"""What callers asked of one topic, against a model that keeps every record and request by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spark_ordered_kafka.client.accepted import Accepted
from spark_ordered_kafka.client.backlog import Backlog, Chunk, CommitRequest, Queue


@dataclass
class _Record:
    number: int
    at: float
    is_dropped: bool = False


@dataclass
class _Asked:
    request: CommitRequest
    records: list[_Record]
    is_dropped: bool = False


@dataclass
class _Model:
    """``records``: not settled, as accepted. ``commits``: not done."""

    records: list[_Record] = field(default_factory=list)
    commits: list[_Asked] = field(default_factory=list)

    @property
    def kept(self) -> list[_Record]:
        return [record for record in self.records if not record.is_dropped]

    def settle(self, numbers: list[int]) -> None:
        self.records = [record for record in self.records if record.number not in numbers]


def _numbers(chunks: list[Chunk]) -> list[int]:
    return [int(value or b"") for chunk in chunks for value in chunk.values]


class _Topic(RuleBasedStateMachine):
    """A topic whose callers and sender take turns in any order, as the lock lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.backlog = Backlog(10**6, 10**9, manual=True, clock=lambda: self.now)
        self.queue = Queue()
        self.backlog.queues.append(self.queue)
        self.accepted = Accepted(self.backlog, self.queue)
        self.model = _Model()
        self.transaction: list[Chunk] = []
        self.aborts: list[CommitRequest] = []
        self.count = 0

    @rule(records=st.integers(1, 3))
    def produce(self, records: int) -> None:
        for _ in range(records):
            self.now += 1.0
            self.queue.put(b"key", str(self.count).encode(), self.now)
            self.model.records.append(_Record(self.count, self.now))
            self.count += 1

    @rule()
    def ask_for_a_commit(self) -> None:
        self.accepted.cut()
        request = CommitRequest()
        self.accepted.commits.append(request)
        self.model.commits.append(_Asked(request, list(self.model.records)))

    @rule()
    def ask_for_an_abort(self) -> None:
        self.accepted.cut()
        self.accepted.drop()
        self.aborts.append(CommitRequest())
        self.accepted.aborts.append(self.aborts[-1])
        for record in self.model.records:
            record.is_dropped = True
        for asked in self.model.commits:
            asked.is_dropped = True

    @precondition(lambda self: not self.accepted.aborts)
    @rule()
    def send(self) -> None:
        self.transaction += self.accepted.take()

    @precondition(lambda self: not self.accepted.aborts)
    @rule(is_part=st.booleans(), is_aborted=st.booleans())
    def commit(self, is_part: bool, is_aborted: bool) -> None:
        """All that is asked for; or a first part, after which the requests are for the rest. An abort may be asked for meanwhile."""
        self.transaction += self.accepted.take()
        requests = self.accepted.take_commits()
        assert requests == [asked.request for asked in self.model.commits]
        taken = _numbers(self.transaction)
        if requests:
            assert taken == [
                record.number for record in self.model.commits[-1].records if record in self.model.records
            ]
        if is_aborted:
            self.ask_for_an_abort()
        count = 1 if is_part else len(self.transaction)
        committed, self.transaction = self.transaction[:count], self.transaction[count:]
        if self.transaction:
            self.accepted.put_back(requests)
        else:
            done = self.model.commits[: len(requests)]
            self.model.commits = self.model.commits[len(done) :]
        self._settle(committed)

    @precondition(lambda self: self.accepted.aborts)
    @rule()
    def abort(self) -> None:
        aborts, chunks, commits = self.accepted.take_dropped()
        assert aborts == self.aborts
        self.aborts = []
        self.transaction += chunks
        assert _numbers(self.transaction) == [one.number for one in self.model.records if one.is_dropped]
        assert commits == [asked.request for asked in self.model.commits if asked.is_dropped]
        self.model.commits = [asked for asked in self.model.commits if not asked.is_dropped]
        dropped, self.transaction = self.transaction, []
        self._settle(dropped)

    def _settle(self, chunks: list[Chunk]) -> None:
        self.model.settle(_numbers(chunks))
        self.accepted.settle(sum(map(len, chunks)), self.transaction)
        with self.backlog.lock:
            self.backlog.settle(chunks)

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        records, kept = self.model.records, self.model.kept
        assert self.accepted.pending == len(records) == self.backlog.count
        assert self.accepted.kept == len(kept)
        if records:
            assert self.accepted.oldest == records[0].at
        assert self.accepted.oldest_kept == (kept[0].at if kept else None)


TestTopic = _Topic.TestCase
TestTopic.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
