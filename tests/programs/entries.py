"""The model that programs of plain clients are judged by: what is committed, delivered, produced and dropped. No I/O.

What is entered follows from what the clients' methods promise, and from nothing of how they do it. A record is known by its
number. What of a group's records is committed is known for certain, or not (``MAYBE``): the model learns it from what is
delivered next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.programs.books import (
    Fate,
    Holders,
    MemberBook,
    ProducerBook,
    Productions,
    Record,
    State,
    read_logs,
)
from tests.programs.steps import Act, Change, Foreign, Grow, Program, Step, Subscribe


class Entries:
    """The books of all clients, and what is entered in them; notes each promise that was broken in :attr:`violations`.

    Args:
        program: what was run.
        logs: what is in each topic, records of a key in the order of writing.
    """

    def __init__(self, program: Program, logs: Mapping[str, Sequence[Record]]) -> None:
        self.violations: list[str] = []
        self._program = program
        self._records, self._earlier, twice = read_logs(logs)
        self.state = dict.fromkeys(self._records, State.OPEN)
        self._gone: set[str] = set()
        self._members: dict[str, MemberBook] = {}
        self._producers: dict[str, ProducerBook] = {}
        self._productions = Productions()
        self._holders = Holders()
        self._step: Step | None = None
        self._restarts = program.restarts_servers
        self._unrest = self._restarts or any(
            isinstance(one, Change | Foreign | Grow | Subscribe) for one in program.steps
        )
        self._number_of_steps = 0
        for text in twice:
            self._break(text)

    def _break(self, text: str) -> None:
        where = f"step {self._number_of_steps}, {self._step}: " if self._step else ""
        self.violations.append(where + text)

    # -- the group ----------------------------------------------------------------------------------------------

    def _count_as_processed(self, client: str) -> None:
        member = self._members[client]
        if member.auto and not member.stores:
            member.processed |= member.delivered.keys()
            self._doubt(member.delivered)

    def _deliver(self, client: str, topic: str, partition: int, offset: int, number: str) -> None:
        member, record = self._members[client], self._records.get(number)
        if record is None or (record.tp, record.offset) != ((topic, partition), offset):
            self._break(f"{client} got {number!r} at {topic}-{partition}, {offset}, where there is {record}")
            return
        if record.tp in member.paused:
            self._break(f"{client} got {record} of a partition that it has paused")
        if number in member.delivered:
            self._break(f"{client} got {record} twice")
        if self.state[number] is State.DONE:
            self._break(f"{client} got {record}, which is committed")
        for other in self._earlier.get(number, ()):
            if other in member.delivered or other in self._gone or self.state[other] is State.DONE:
                continue
            if self.state[other] is State.OPEN:
                self._break(
                    f"{client} got {record} before {self._records[other]}, which is neither committed nor its own"
                )
            self.state[other] = State.DONE
        self.state[number] = State.OPEN
        member.delivered[number] = None
        member.latest = number
        if member.keeps_state and not member.is_slow:
            holder = self._holders.take(client, record)
            if holder is not None:
                self._break(f"{client} got {record} while {holder[0]} holds its key's state from {holder[1]}")

    def _leave(self, client: str, *, commits: bool) -> None:
        """The member loses all its partitions."""
        self._holders.release(client)
        member = self._members.get(client)
        if member is None:
            return
        if member.auto:
            failing = isinstance(self._step, Act) and self._step.verb.startswith("fail")
            if commits and not failing and not member.stores:
                # librdkafka calls on_revoke although the group has given up on a member that it waited for in a rebalance.
                (self._doubt if member.is_slow else self._done)(member.delivered)
        else:
            member.is_lost = member.is_lost or self._is_dirty(member)
        self._unrest = True
        member.begin_again()

    def _is_dirty(self, member: MemberBook) -> bool:
        return any(self.state[number] is not State.DONE for number in member.delivered)

    def _resubscribe(
        self, client: str, *, keeps_state: bool, commits_last: bool, error: Exception | None
    ) -> None:
        if error is not None:
            self._break(f"raised {type(error).__name__}: {error}")
            return
        self._leave(client, commits=True)
        member = self._members[client]
        member.paused.clear()
        member.keeps_state, member.commits_last = keeps_state, commits_last

    def _rewind(self, client: str) -> None:
        member = self._members.get(client)
        if member is None:
            return
        dirty = self._is_dirty(member) or member.is_lost
        member.begin_again()
        member.is_lost = False
        self._loosen(client)
        if dirty:
            for producer in self._producers.values():
                if producer.pending:
                    producer.rewound.add(client)

    def _loosen(self, client: str) -> None:
        """Of a consumer that has gone elsewhere, what the next commit commits may be delivered before that."""
        for producer in self._producers.values():
            if client in producer.sent:
                producer.sent[client] = dict.fromkeys(producer.sent[client], State.MAYBE)

    def _done(self, numbers: Iterable[str]) -> None:
        self.state.update(dict.fromkeys(numbers, State.DONE))

    def _doubt(self, numbers: Iterable[str]) -> None:
        self.state.update((number, State.MAYBE) for number in numbers if self.state[number] is State.OPEN)

    # -- producers ----------------------------------------------------------------------------------------------

    def _produce(self, client: str, topic: str, key: str | None, number: str) -> None:
        self._productions.add(client, topic, key, number)
        self._producers[client].pending.append((topic, number))

    def _commit(self, producer: ProducerBook) -> None:
        self._productions.fates.update((number, Fate.THERE) for _, number in producer.pending)
        for sent in producer.sent.values():
            self.state.update((n, sure) for n, sure in sent.items() if self.state[n] is not State.DONE)
        producer.begin_again()

    def _abort(self, producer: ProducerBook) -> None:
        # One with an interval may have committed by itself.
        fate = Fate.NOT_THERE if producer.manual else Fate.UNKNOWN
        self._productions.fates.update((number, fate) for _, number in producer.pending)
        producer.begin_again()
        for name in producer.read:
            # One that commits by itself was refused.
            if name in self._members and not self._members[name].auto:
                self._rewind(name)
