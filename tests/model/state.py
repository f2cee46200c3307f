"""States and configurations of the change protocol's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from spark_ordered_kafka.ordering import bucket
from tests.model.logs import Part

# What an instance of a writer has done.
NEW, INITIALISED, READY = range(3)
# The state of a transactional id at its coordinator, and Kafka's names for it.
UNKNOWN, EMPTY, ONGOING, COMMITTING, ABORTING = range(5)
STATE_NAMES = ("", "Empty", "Ongoing", "PrepareCommit", "PrepareAbort")


class Writer(NamedTuple):
    """A writer and its transactional id at the coordinator.

    ``done``: transactions it knows to be committed; ``sent``: records of the next one; ``epoch``: the layout it
    checked; ``valid``: whether its instance is the newest of the id; ``partitions``: bits of those in the transaction,
    or of those whose marker is missing; ``ledger``: transactions committed; ``left``: whether a fence was the last to
    initialise the id.
    """

    done: int = 0
    phase: int = NEW
    sent: int = 0
    epoch: int = 0
    valid: bool = False
    state: int = UNKNOWN
    partitions: int = 0
    ledger: int = 0
    left: bool = False


class State(NamedTuple):
    """``node``: see :mod:`tests.model.controller`; ``epoch``: the newest layout; ``fence`` and ``late``: bits of the
    writers that a controller, or a dead one, is still to fence; ``held``: what the reader has in hand, () for nothing;
    ``delivered``: per key of writer 0, how many records."""

    node: int
    epoch: int
    fence: int
    late: int
    held: tuple[int, ...]
    writers: tuple[Writer, ...]
    parts: tuple[Part, ...]
    delivered: tuple[int, ...]


#: What is done, by or to which writer or partition, and a number that belongs to it.
Action: TypeAlias = tuple[str, int, int]
Step: TypeAlias = tuple[Action, State, "str | None"]

#: The rules that can be broken, and how.
RULES = {
    "init, check, write": "a writer asks for the layout before it initialises its transactions",
    "closing": "a writer is told the layout although a change is closing",
    "ledger": "a writer sends again without looking whether the transaction was committed",
    "fence": "the controller fences nobody",
    "markers": "the fence does not wait for the markers of the transactions that it ends",
    "idle ids": "the listing leaves out the ids that are idle",
    "ids left by a fence": "the listing leaves out the ids that a fence has taken over once, initialised since or not",
    "fence, then boundaries": "the controller takes the log ends that it read before the fence",
    "closing check": "the controller commits without looking whether a log grew",
    "producer epochs": "brokers accept the requests of a fenced producer",
    "ends, then layout": "the reader takes the layout first and end offsets second",
    "gate": "the reader goes on to its end offsets whatever the gate says",
    "all earlier epochs": "the gate looks at the immediate parent only, as in KIP-253",
    "process, then commit": "the reader commits its position before it delivers",
    "last stable offset": "the reader reads up to the log end",
}


@dataclass(frozen=True)
class Config:
    """What is explored.

    ``counts``: partition counts, from the initial one on. ``transactions``: what writer 0 writes: per transaction the
    hashes of its records' keys. The other ``writers`` write the first of these transactions without end. ``broken``: the rules that are broken, of :data:`RULES`. ``force``:
    whether changes are forced. ``drain``: see :class:`~tests.model.controller.ChangeMachine`. ``late_fences``: whether
    requests of a dead controller may still arrive. ``judge_epochs``: whether rows must carry the layout they were
    written under, besides being delivered once and in order.
    """

    counts: tuple[int, ...]
    transactions: tuple[tuple[int, ...], ...]
    writers: int = 1
    broken: frozenset[str] = frozenset()
    force: bool = False
    drain: bool = False
    late_fences: bool = False
    judge_epochs: bool = True

    def __post_init__(self) -> None:
        unknown = self.broken - RULES.keys()
        if unknown:
            raise ValueError(f"rules {sorted(unknown)}: known are {sorted(RULES)}")

    def breaks(self, rule: str) -> bool:
        """Whether ``rule`` is broken here."""
        return rule in self.broken


class Program:
    """What the writers write: records are numbered, those of writer 0 first, each writer's in the order of writing."""

    def __init__(self, config: Config) -> None:
        flat = [key for transaction in config.transactions for key in transaction]
        self.hashes = sorted(set(flat))
        self.per_writer = len(flat)
        #: Transactions per writer.
        self.last = len(config.transactions)
        #: Per transaction its number of records, and that of the first among the writer's.
        self.sizes = [len(transaction) for transaction in config.transactions]
        self.firsts = [sum(self.sizes[:number]) for number in range(self.last)]
        #: Per layout epoch and record of a writer the partition, by the real hashing.
        self.routes = [[bucket(key, config.counts[0], count) for key in flat] for count in config.counts]
        #: Per record of a writer the key's number, and how many records of the key come before it.
        self.keys = [self.hashes.index(key) for key in flat]
        self.places = [flat[:record].count(key) for record, key in enumerate(flat)]
        #: ``State.delivered`` when everything is.
        self.all_delivered = tuple(flat.count(key) for key in self.hashes)

    def name(self, record: int) -> str:
        """A record in words."""
        writer, own = divmod(record, self.per_writer)
        if writer:
            return f"a record of the key with hash {self.hashes[self.keys[own]]}"
        return f"record {self.places[own]} of the key with hash {self.hashes[self.keys[own]]}"
