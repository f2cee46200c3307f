"""Judges a program of plain clients: what each of its steps did, and whether that is what the methods promise. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError, RebalancedError, UnavailableError
from tests.programs.books import Fate, MemberBook, ProducerBook, State, Tp
from tests.programs.entries import Entries
from tests.programs.steps import CLOSING, KILLING, OF_LAST, Act, Change, Consume, Seek, Step, Subscribe


class Judge(Entries):
    """Enters what a program did."""

    # -- what happens -------------------------------------------------------------------------------------------

    def opened(self, client: str) -> None:
        """A client was made."""
        if client.startswith("c"):
            member = self._program.members[int(client[1:])]
            self._unrest = self._unrest or bool(self._members)
            self._members[client] = MemberBook(
                member.auto,
                keeps_state=member.keeps_state,
                stores=member.stores,
                commits_last=member.commits_last,
                is_slow=member.is_slow,
            )
            self._unrest = self._unrest or member.is_slow
        elif client == "end":
            self._members[client] = MemberBook(auto=False)
        else:
            self._producers[client] = ProducerBook(manual=client.startswith("p"))

    def begin(self, step: Step) -> None:
        """A step begins."""
        self._step = step
        self._number_of_steps += 1
        if isinstance(step, Consume):
            self._count_as_processed(step.consumer)

    def told(self, client: str, what: str, about: Any) -> None:
        """What a client told during a step."""
        if what == "got":
            for found in about:
                self._deliver(client, *found)
        elif what == "wrote":
            self._productions.fates.update(dict.fromkeys(about, Fate.THERE))
        elif what == "produced":
            self._produce(client, *about)
        elif what == "report":
            self._productions.reports.append((client, about))
        elif what == "committed":
            self._commit_processed(client)
        elif what == "not committed" and not self._members[client].is_slow:
            self._break(f"{client} cannot commit what is being taken from it")
        elif what in ("revoked", "lost"):
            self._leave(client, commits=what == "revoked")
        elif what == "let go":
            self._holders.release(client, set(about))

    def ended(self, error: Exception | None) -> None:
        """The step has ended."""
        step, self._step = self._step, None
        if isinstance(step, Subscribe):
            self._resubscribe(
                f"c{step.who}", keeps_state=step.keeps_state, commits_last=step.commits_last, error=error
            )
        elif isinstance(step, Act):
            self._act(step, error)
        elif isinstance(error, UnavailableError) and isinstance(step, Change) and self._restarts:
            # The controller had no broker to ask for some seconds.
            return
        elif error is not None and not (isinstance(step, Seek) and isinstance(error, OrderedKafkaError)):
            self._break(f"raised {type(error).__name__}: {error}")

    def sought(self, client: str, tp: Tp, offset: int) -> None:
        """A consumer goes to an offset next."""
        member = self._members[client]
        for record in self._records.values():
            if record.tp != tp:
                continue
            if record.offset >= offset:
                self.state[record.number] = State.OPEN
                member.delivered.pop(record.number, None)
                member.processed.discard(record.number)
            elif self.state[record.number] is not State.DONE:
                member.delivered.setdefault(record.number)
        self._loosen(client)

    def deleted(self, topic: str, before: Mapping[int, int]) -> None:
        """What lies below these offsets is delivered if it was fetched, and otherwise never."""
        self._gone |= {
            one.number
            for one in self._records.values()
            if one.topic == topic and one.offset < before.get(one.partition, 0)
        }

    def due(self, topics: Iterable[str]) -> set[str]:
        """The records of these topics that have to be delivered to whoever reads on."""
        names = set(topics)
        delivered = self._members["end"].delivered if "end" in self._members else {}
        return {
            number
            for number, state in self.state.items()
            if state is State.OPEN
            and number not in delivered
            and number not in self._gone
            and self._records[number].topic in names
        }

    def finish(self) -> None:
        """Judge what was produced by what is there."""
        for text in self._productions.broken(self._records, self._earlier):
            self._break(text)

    # -- acts ---------------------------------------------------------------------------------------------------

    def _act(self, act: Act, error: Exception | None) -> None:
        if act.verb in KILLING:
            self._kill(act)
            return
        expected = self._expected(act)
        if isinstance(error, RebalancedError) and self._may_be_rebalanced(act):
            if act.producer is not None:
                producer = self._producers[act.producer]
                if act.verb.startswith("send"):
                    producer.read.add(str(act.consumer))
                self._abort(producer)
            if act.verb == "end":
                del self._producers[str(act.producer)]
            return
        if expected is not None:
            if not isinstance(error, expected):
                self._break(f"is to raise {expected.__name__}, and raised {error!r}")
            if act.producer is None:
                return
            producer = self._producers[str(act.producer)]
            if act.verb == "send offsets" or (act.verb.startswith("send") and producer.state == "open"):
                producer.read.add(str(act.consumer))
            if act.verb == "end":
                self._abort(self._producers.pop(str(act.producer)))
            return
        if act.verb in OF_LAST and isinstance(error, ConfigError) and self._may_be_gone(act):
            return
        if error is not None:
            self._break(f"raised {type(error).__name__}: {error}")
            return
        getattr(self, f"_{act.verb.replace(' ', '_')}_done")(act)
        if act.verb in CLOSING and act.consumer is not None:
            self._holders.release(act.consumer)
            del self._members[act.consumer]

    def _kill(self, act: Act) -> None:
        client = f"c{act.who[1:]}"
        if client in self._members:
            if act.verb == "kill while it reads":
                self._count_as_processed(client)
            if self._members[client].commits_last:
                self._doubt(self._members[client].delivered)
            self._holders.release(client)
            del self._members[client]
            self._unrest = True
        producer = self._producers.pop(f"p{act.who[1:]}", None)
        if producer is None:
            return
        refused = bool(producer.sent) and len(producer.topics) > 1
        if act.verb != "kill while it commits" or refused:
            self._abort(producer)
        elif len(producer.topics) <= 1:
            self._settle_in_doubt(producer)

    def _settle_in_doubt(self, producer: ProducerBook) -> None:
        """Records and offsets were committed together, or neither."""
        pending = [number for _, number in producer.pending]
        there = [number for number in pending if number in self._records]
        if 0 < len(there) < len(pending):
            self._break(f"of one transaction {there} is there, and not the rest of {pending}")
        if there:
            self._commit(producer)
        elif pending:
            self._abort(producer)
        else:
            self._doubt(number for numbers in producer.sent.values() for number in numbers)

    def _expected(self, act: Act) -> type[Exception] | None:
        """The error that the step is to raise."""
        if act.verb == "store" and not self._members[str(act.consumer)].stores:
            return ConfigError
        if act.producer is None:
            return None
        return self._producers[act.producer].refusal(act.verb, self._members.get(act.consumer or ""))

    def _may_be_rebalanced(self, act: Act) -> bool:
        """Whether RebalancedError has a reason."""
        refusing = act.producer is not None and act.consumer in self._producers[act.producer].rewound
        return self._unrest or refusing

    def _may_be_gone(self, act: Act) -> bool:
        """Whether the last record that came need not be the consumer's any more, or comes again after a seek."""
        member = self._members[str(act.consumer)]
        return self._unrest or member.latest not in member.delivered

    def _commit_processed(self, client: str) -> None:
        delivered = self._members[client].delivered
        if isinstance(self._step, Act) and self._step.verb == "fail both":
            # The producer has taken the consumer back by then, if it has ever met it.
            self._doubt(delivered)
        # What was stored is in doubt already.
        elif not self._members[client].stores:
            self._done(delivered)

    def _commit_done(self, act: Act) -> None:
        self._commit_processed(str(act.consumer))

    _commit_in_the_background_done = _commit_done

    def _commit_last_done(self, act: Act) -> None:
        # What would let a successor get a key's later records before its earlier ones is not committed yet.
        (self._doubt if self._unrest else self._done)(self._up_to_last(act))

    def _store_done(self, act: Act) -> None:
        self._doubt(self._up_to_last(act))

    def _up_to_last(self, act: Act) -> list[str]:
        """What was delivered up to the last record, of its partition."""
        delivered = self._members[str(act.consumer)].delivered
        records = [self._records[number] for number in delivered]
        return [
            one.number for one in records if one.tp == records[-1].tp and one.offset <= records[-1].offset
        ]

    def _look_done(self, act: Act) -> None:
        """It changes nothing."""

    _work_for_long_done = _look_done

    def _rewind_done(self, act: Act) -> None:
        self._rewind(str(act.consumer))

    def _pause_done(self, act: Act) -> None:
        """What is paused is told by :meth:`paused`."""

    def paused(self, client: str, tps: Iterable[Tp]) -> None:
        """The consumer has paused these partitions, and no others."""
        self._members[client].paused = set(tps)

    def _resume_done(self, act: Act) -> None:
        """As of :meth:`_pause_done`."""

    def _unsubscribe_done(self, act: Act) -> None:
        self._resubscribe(str(act.consumer), keeps_state=False, commits_last=False, error=None)

    def _close_done(self, act: Act) -> None:
        self._leave(str(act.consumer), commits=True)

    def _fail_done(self, act: Act) -> None:
        """What was delivered last was not processed."""

    def _drop_done(self, act: Act) -> None:
        self._unrest = True

    def _send_offsets_done(self, act: Act) -> None:
        producer, member = self._producers[str(act.producer)], self._members[str(act.consumer)]
        producer.read.add(str(act.consumer))
        if member.is_lost or act.consumer in producer.rewound:
            self._break("is to raise RebalancedError")
        producer.sent[str(act.consumer)] = dict.fromkeys(member.delivered, State.DONE)

    _send_offsets_to_transaction_done = _send_offsets_done

    def _fail_both_done(self, act: Act) -> None:
        self._abort(self._producers.pop(str(act.producer)))

    _fail_in_producer_done = _fail_both_done

    def _commit_all_done(self, act: Act) -> None:
        self._commit(self._producers[str(act.producer)])

    def _abort_done(self, act: Act) -> None:
        self._abort(self._producers[str(act.producer)])

    def _flush_done(self, act: Act) -> None:
        producer = self._producers[str(act.producer)]
        if not producer.is_unfinished:
            self._commit(producer)

    def _poll_done(self, act: Act) -> None:
        """It serves reports."""

    def _end_done(self, act: Act) -> None:
        producer = self._producers.pop(str(act.producer))
        if producer.is_unfinished:
            self._abort(producer)
        else:
            self._commit(producer)

    def _init_done(self, act: Act) -> None:
        producer = self._producers[str(act.producer)]
        producer.state = "ready" if producer.state == "unused" else producer.state

    def _begin_done(self, act: Act) -> None:
        self._producers[str(act.producer)].state = "open"

    def _commit_transaction_done(self, act: Act) -> None:
        self._commit_all_done(act)
        self._producers[str(act.producer)].state = "ready"

    def _abort_transaction_done(self, act: Act) -> None:
        self._abort_done(act)
        self._producers[str(act.producer)].state = "ready"
