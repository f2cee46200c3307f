"""Writers (``kafka/writer.py``, ``kafka/producer.py``) and the brokers' part of their transactions."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.controller import ChangeMachine
from tests.model.logs import Part, end_of_transaction, entry
from tests.model.state import (
    ABORTING,
    COMMITTING,
    EMPTY,
    INITIALISED,
    NEW,
    ONGOING,
    READY,
    UNKNOWN,
    Config,
    Program,
    State,
    Step,
    Writer,
)


def with_writer(state: State, number: int, writer: Writer) -> State:
    """``state`` with another writer ``number``."""
    writers = state.writers
    return state._replace(writers=(*writers[:number], writer, *writers[number + 1 :]))


def with_part(state: State, number: int, part: Part) -> State:
    """``state`` with another partition ``number``."""
    parts = state.parts
    return state._replace(parts=(*parts[:number], part, *parts[number + 1 :]))


def taken_over(writer: Writer, await_markers: bool) -> tuple[Writer, bool] | None:
    """InitProducerId by somebody else: the id afterwards, and whether the request is done.

    None while the last transaction is being ended (CONCURRENT_TRANSACTIONS). An open one is aborted; the request is
    sent again until the markers are written, but the older instance is fenced at once. Without ``await_markers`` it is
    done with the first answer.
    """
    if writer.state == ONGOING:
        return writer._replace(state=ABORTING, valid=False), not await_markers
    if writer.state == EMPTY:
        return writer._replace(valid=False, left=True), True
    if writer.state >= COMMITTING and not await_markers:
        return writer._replace(valid=False), True
    return None


class Writers:
    """The steps of writers, and of brokers that end transactions."""

    def __init__(self, config: Config, program: Program, machine: ChangeMachine) -> None:
        self._program = program
        self._machine = machine
        self._check_first = config.breaks("init, check, write")
        self._answer_while_closing = config.breaks("closing")
        self._look_into_ledger = not config.breaks("ledger")
        self._fencing = not config.breaks("producer epochs")
        self._left_for_good = config.breaks("ids left by a fence")

    def steps(self, state: State) -> Iterator[Step]:
        """All that a writer or a broker may do next."""
        for number, writer in enumerate(state.writers):
            if writer.state >= COMMITTING:
                yield from self._write_markers(state, number, writer)
            elif writer.state == ONGOING:
                after = writer._replace(state=ABORTING, valid=False)
                yield ("timeout", number, 0), with_writer(state, number, after), None
            if writer.done == self._program.last:
                continue
            if writer.phase == NEW:
                if self._check_first:
                    yield from self._check(state, number, writer)
                else:
                    yield from self._initialise(state, number, writer)
                continue
            yield ("crash", number, 0), with_writer(state, number, _crashed(writer)), None
            if writer.phase == INITIALISED:
                if self._check_first:
                    yield from self._initialise(state, number, writer)
                else:
                    yield from self._check(state, number, writer)
            elif not writer.valid and self._fencing:
                yield ("fenced", number, 0), with_writer(state, number, _crashed(writer)), None
            elif writer.sent < self._program.sizes[writer.done]:
                yield from self._send(state, number, writer)
            else:
                yield from self._commit(state, number, writer)

    def _initialise(self, state: State, number: int, writer: Writer) -> Iterator[Step]:
        """init_transactions, and then the ledger, which nobody else writes."""
        if writer.state == ONGOING:
            after = writer._replace(state=ABORTING)
            yield ("abort", number, 0), with_writer(state, number, after), None
        elif writer.state in (UNKNOWN, EMPTY):
            known = max(writer.done, writer.ledger) if self._look_into_ledger else writer.done
            phase = READY if self._check_first else INITIALISED
            left = writer.left and self._left_for_good
            after = self._at_rest(
                writer._replace(state=EMPTY, valid=True, phase=phase, done=known, left=left)
            )
            yield ("init", number, known - writer.done), with_writer(state, number, after), None

    def _check(self, state: State, number: int, writer: Writer) -> Iterator[Step]:
        if self._answer_while_closing or not self._machine.closing(state.node):
            phase = INITIALISED if self._check_first else READY
            after = writer._replace(phase=phase, epoch=state.epoch)
            yield ("check", number, state.epoch), with_writer(state, number, after), None

    def _send(self, state: State, number: int, writer: Writer) -> Iterator[Step]:
        if writer.state >= COMMITTING:
            return  # the markers of the last transaction come first (CONCURRENT_TRANSACTIONS)
        own = self._program.firsts[writer.done] + writer.sent
        partition = self._program.routes[writer.epoch][own]
        record = number * self._program.per_writer + own
        part = state.parts[partition]
        sent = part._replace(
            entries=(*part.entries, entry(record, 0 if number else writer.epoch, is_open=True))
        )
        after = writer._replace(
            sent=writer.sent + 1, state=ONGOING, partitions=writer.partitions | 1 << partition
        )
        yield ("send", partition, record), with_part(with_writer(state, number, after), partition, sent), None

    def _commit(self, state: State, number: int, writer: Writer) -> Iterator[Step]:
        """The decision; the answer may be lost, or the writer die before it arrives."""
        if writer.state == ONGOING:
            # Who writes without end has neither a number of transactions nor a ledger to be judged by.
            decided = writer._replace(state=COMMITTING, ledger=writer.ledger if number else writer.done + 1)
        elif self._fencing or writer.state != EMPTY:
            return
        else:
            decided = writer  # a broker that accepts everything commits nothing here
        after = self._at_rest(decided._replace(done=writer.done if number else writer.done + 1, sent=0))
        yield ("commit", number, writer.done), with_writer(state, number, after), None
        yield ("commit unknown", number, writer.done), with_writer(state, number, _crashed(decided)), None

    def _write_markers(self, state: State, number: int, writer: Writer) -> Iterator[Step]:
        first = number * self._program.per_writer
        for partition, part in enumerate(state.parts):
            if not writer.partitions & 1 << partition:
                continue
            entries = end_of_transaction(
                part.entries,
                first,
                first + self._program.per_writer,
                # What is not judged is like what is aborted.
                committed=writer.state == COMMITTING and number == 0,
            )
            left = writer.partitions & ~(1 << partition)
            after = writer._replace(partitions=left, state=writer.state if left else EMPTY)
            yield (
                ("commit marker" if writer.state == COMMITTING else "abort marker", partition, number),
                with_part(with_writer(state, number, after), partition, part._replace(entries=entries)),
                None,
            )

    def _at_rest(self, writer: Writer) -> Writer:
        """A writer that has written everything does nothing with its instance any more."""
        if writer.done < self._program.last:
            return writer
        return _crashed(writer)


def _crashed(writer: Writer) -> Writer:
    return writer._replace(phase=NEW, sent=0, epoch=0, valid=False)
