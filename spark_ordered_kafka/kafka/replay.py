"""Whether what a task is about to write is a replay of what the ledger has: pure judgement, no I/O.

A micro-batch is replayed by a later run of its query, and each task must then get the rows it got the first time. Within
one run a batch is written once, so an entry of the same run and batch that another execution wrote is a second write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import NO_ORIGIN, Fingerprint, LedgerEntry, Origin

ACCEPT_OPTION = "acceptReplayMismatch"
_SAME_TASKS = (
    "the same batch must give every task the same rows on each attempt: repartition with a fixed number, such as"
    ' df.repartition(8, "key"), and no adaptive execution before the sink'
)


@dataclass(frozen=True)
class Claim:
    """What a task wants to write: the batch ``sequence`` of ``writer``.

    ``accepted``: the operator has accepted that rows of this batch are lost or doubled (D-071). ``replayable``: False
    of a write whose name is new, of which only a repeated task finds an entry.
    """

    writer: str
    sequence: int
    origin: Origin = NO_ORIGIN
    accepted: bool = False
    replayable: bool = True


def refusal(entry: LedgerEntry, name: str, claim: Claim) -> str | None:
    """Why rows may not be compared with ``entry`` of the ledger ``name``, let alone be written (D-070); None: they may."""
    ours, theirs = claim.origin, entry.origin
    if entry.sequence < claim.sequence:
        return None
    if theirs.query and ours.query and theirs.query != ours.query:
        return (
            f"{name!r} has committed batch {entry.sequence} of another query ({theirs.query}), or of this one before its"
            f" checkpoint was deleted, and cannot tell its batches from those of query {ours.query}: give the option"
            " writer a name that was not used before"
        )
    if entry.sequence > claim.sequence:
        return (
            f"{name!r} was given batch {claim.sequence} but has committed batch {entry.sequence} before: the checkpoint is"
            " older than what was written, or was deleted, or another driver runs the query, too; restore the newer"
            " checkpoint, or, to write those batches again, start with a new checkpoint and give the option writer, if it"
            " is set, a name that was not used before"
        )
    if theirs.run and theirs.run == ours.run and theirs.execution != ours.execution:
        return (
            f"{name!r} has committed batch {entry.sequence} by another write of this batch under the same name: give"
            " each write of a batch a name of its own by the option writer (a write that failed may be repeated by"
            " letting the batch fail)"
        )
    return None


def mismatch(entry: LedgerEntry, name: str, claim: Claim, fingerprint: Fingerprint) -> str | None:
    """Why the rows of ``fingerprint`` are no replay of those that ``entry`` of the ledger ``name`` speaks of."""
    if entry.sequence != claim.sequence or entry.fingerprint == fingerprint:
        return None
    return (
        f"task {name!r} replays batch {claim.sequence} with {fingerprint.rows} rows that are not the"
        f" {entry.fingerprint.rows} rows it committed the first time. {_causes(claim)}"
    )


def entries_of_others(
    entries: Mapping[WriterTask, LedgerEntry], topics: Collection[str], claim: Claim
) -> dict[WriterTask, LedgerEntry]:
    """Of the ledgers that this execution of the batch did not write: those with an entry of the batch, or of a later one.

    ``topics``: all that the batch was written to now. Other writes of the same name may go to other topics, unless
    topics are named by rows: which of them such a write wrote to before only its entries show.
    """
    ours = claim.origin
    return {
        ledger: entry
        for ledger, entry in entries.items()
        if entry.sequence >= claim.sequence
        and entry.origin.query in ("", ours.query)
        and (ledger.topic in topics or (ours.by_column and entry.origin.by_column))
    }


def complaint(ledger: WriterTask, entry: LedgerEntry, claim: Claim) -> str:
    """Why the entry of another task, which :func:`refusal` permits, shows that rows were distributed otherwise before."""
    return (
        f"task {ledger.name!r} committed {entry.fingerprint.rows} rows of batch {claim.sequence} in an earlier attempt,"
        f" and none in this one, as if they had gone to other tasks now. {_causes(claim)}"
    )


def renaming(ledger: WriterTask, entry: LedgerEntry, claim: Claim) -> str | None:
    """Why the entry of a task of another writer shows that this query has written the batch under that name; None: it
    does not.
    """
    if not claim.origin.query or entry.origin.query != claim.origin.query or entry.sequence < claim.sequence:
        return None
    return (
        f"{ledger.name!r} has committed batch {entry.sequence} of this query, of which {claim.writer!r} is about to write"
        f" batch {claim.sequence}: its rows would be written twice. The query had the name {ledger.writer!r} when it was"
        f" stopped in mid-batch: set the option writer to {ledger.writer}, at least until that batch is done"
    )


def _causes(claim: Claim) -> str:
    if not claim.replayable:
        return (
            "Spark has run the task a second time, and its rows are not the same each time (rand(), the time of day, an input"
            " that changes): let the rows depend on the input alone, or write them to a file first. What tasks have committed"
            " stays, and another write adds all rows again"
        )
    return (
        f"Either its rows were distributed otherwise ({_SAME_TASKS}), or other rows came: retention or compaction has"
        " removed records of the input since, the transformation is not deterministic, or two writes of a batch share"
        " the name (option writer). Go back to the tasks and the input of the first attempt; where that is impossible,"
        f" {ACCEPT_OPTION}={claim.writer}:{claim.sequence} on this write lets this one batch pass: what tasks have"
        " committed before stays, their rows of now are skipped, all other tasks write theirs, and so rows may be"
        " lost or doubled in this batch"
    )
