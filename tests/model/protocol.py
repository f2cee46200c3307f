"""The partition change as an explicit-state model: controller, writers, broker transactions and a reader.

**What is the product's own code.** The controller's steps come out of ``controller/change/machine.py`` (``plan``, ``resume``
and ``advance``, see :mod:`tests.model.controller`), partitions from ``ordering.bucket``, and how far the reader may go
from ``ordering.LayoutHistory`` and ``ordering.readable``. The rest is modelled:

- *Writer* (``kafka/writer.py``): init_transactions, look into the ledger, ask for the layout, send record by record,
  commit; the instance stays in use for the next transaction with the layout it has. A fenced writer starts over. It may
  crash at any moment, any number of times, also between a commit and its answer. Restarting is part of a crash, since a
  dead writer does nothing that could be told from a slow one.
- *Broker*: InitProducerId fences the older instance, aborts an open transaction and is done when its markers are
  written; a request of a fenced instance is rejected; the end of a transaction is decided first and its markers reach
  one partition after the other later; the log end counts open records, the last stable offset does not; the ledger
  entry belongs to the transaction; an open transaction may time out.
- *Controller*: before it closes, it fences any idle ids. A listing shows the ids initialised before it, and perhaps those
  initialised during it, but for those that a fence was the last to initialise. The fence takes them over in any order. At every step the controller may crash, any number of times; the next one resumes from what is
  persisted, while requests of the dead one's fence may still arrive at any later time. What it asks Kafka may fail,
  come too late or be cancelled; a change that is taken back is asked for again. Where a count follows itself, the
  controller covers partitions that something else has made: ends are read and a layout committed beside all that goes on.
- *Reader* (``spark/stream.py``): end offsets first, layout second, then the gate, and any part of what it lets through,
  partition by partition. What is read is delivered and committed in one step, because the end of a micro-batch is
  persisted before its rows are read, and replayed alike after a crash.

**What is checked.** At every delivery: per key the next record in the order of writing, none twice, and with the
``layout_epoch`` it was written under, or one of the same count that covers partitions. At every closing check: no ordered writer is taken for a foreign one. And from
every state everything can still be finished, so that nothing is lost and nobody waits for ever.

**What is merged, and why that is sound.**

- Steps of the controller that nobody sees (see :mod:`tests.model.controller`).
- Writers do not know of each other, and readers neither. So one reader stands for all, and whatever can befall a writer
  can befall writer 0: it alone is judged. To the reader, records of the others are like aborted ones, and how many
  they write does not matter: they write without end, which is more than any number.
- End, layout and delivery are one step, unless a layout is committed in between: all else that may happen there only
  appends behind the end taken. Ends that are held across a commit are taken just before it: an older end is a smaller
  one, and the gate stops at the smaller of the end and its own limit, so reading only a part stands for it.
- Partitions are read one after another. What the gate lets through at once for several, it lets through for each of
  them as the first, and then still for the others, because positions only grow.
- Empty offsets are passed as soon as the gate permits, and runs of them are shortened (:func:`tests.model.logs.canonical`):
  a reader that stands before one can deliver nothing that it cannot deliver behind it.
- The writer's ledger is read with the initialisation: nobody but the instance itself can write to it after that.

Nothing is bounded but the records of writer 0 and the number of changes: neither crashes nor depth are.

**What is not modelled.** Replicas and their loss, retention, compaction, producers that are not ordered writers, two
attempts of one task at once (apart from their fencing each other: a late fence), requests of an instance that arrive
after its successor's, and what keeps ZooKeeper's content right: writes of a deposed controller fail on the controller
epoch, and a write whose answer was lost is recognised by the runner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tests.model import controller as c
from tests.model.controller import ChangeMachine
from tests.model.logs import Part, canonical
from tests.model.narrator import Narrator
from tests.model.reader import Reader, released
from tests.model.state import EMPTY, STATE_NAMES, UNKNOWN, Action, Config, Program, State, Step, Writer
from tests.model.writers import Writers, taken_over, with_writer


class Protocol:
    """The model of one configuration, for :class:`tests.model.search.Search`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._program = Program(config)
        self._machine = ChangeMachine(config.counts, force=config.force, drain=config.drain)
        self._writers = Writers(config, self._program, self._machine)
        self._reader = Reader(config, self._program, self._machine)
        self._narrator = Narrator(config, self._program, self._machine)
        self._markers = not config.breaks("markers")
        self._steps_of_kind = {
            c.CLOSE: self._close,
            c.LIST: self._list,
            c.FENCE: self._fence,
            c.READ: self._read,
            c.CHECK: self._check,
            c.COMMIT: self._commit,
            c.TAKE_BACK: self._take_back,
            c.COVER: self._cover,
        }

    # -- the search's questions ---------------------------------------------------------------------------------

    def initial(self) -> State:
        """Nothing is written, and the first change is asked for."""
        return State(
            node=self._machine.planned(0),
            epoch=0,
            fence=0,
            late=0,
            held=(),
            writers=(Writer(),) * self._config.writers,
            parts=(Part(()),) * max(self._config.counts),
            delivered=(0,) * len(self._program.all_delivered),
        )

    def is_goal(self, state: State) -> bool:
        """All changes are made, and all records are written and delivered."""
        return (
            state.epoch + 1 == len(self._config.counts)
            and state.delivered == self._program.all_delivered
            and state.writers[0].done == self._program.last
        )

    def successors(self, state: State) -> Iterator[Step]:
        """Every step that can come next."""
        for steps in (self._writers.steps, self._controller_steps, self._reader.steps):
            for action, after, problem in steps(state):
                yield action, self._canonical(after), problem

    def describe(self, action: Action, before: State, after: State) -> str:
        """The step as a line of a trace."""
        return self._narrator.describe(action, before, after)

    # -- controller ---------------------------------------------------------------------------------------------

    def _controller_steps(self, state: State) -> Iterator[Step]:
        for number, writer in enumerate(state.writers):
            if state.late >> number & 1 and (taken := taken_over(writer, self._markers)) is not None:
                after = with_writer(state, number, taken[0])
                yield ("late fence", number, 0), after._replace(late=state.late & ~(1 << number)), None
        kind = self._machine.kind(state.node)
        if kind == c.NOTHING:
            return
        if kind == c.CLOSE:
            yield from self._fence_ahead(state)
        yield from self._steps_of_kind[kind](state)
        if not self._machine.closing(state.node):
            return
        late = state.late
        if self._config.late_fences and kind == c.FENCE:
            late |= state.fence
        crashed = state._replace(node=self._machine.resumed(state.node), late=late)
        yield ("controller crash", 0, 0), self._afresh(crashed), None
        if kind in c.ASKING_KAFKA:
            for number, (_, node) in enumerate(self._machine.disturbed(state.node)):
                yield ("disturbance", number, 0), self._afresh(state._replace(node=node, late=late)), None

    def _close(self, state: State) -> Iterator[Step]:
        yield ("close", 0, 0), self._afresh(state._replace(node=self._machine.closed(state.node))), None

    def _fence_ahead(self, state: State) -> Iterator[Step]:
        """Any idle id may be fenced while writers go on, also that of a live writer."""
        for number, writer in enumerate(state.writers):
            if writer.state == EMPTY and not writer.left and (taken := taken_over(writer, self._markers)):
                yield ("fence ahead", number, 0), with_writer(state, number, taken[0]), None

    def _list(self, state: State) -> Iterator[Step]:
        """Ids initialised before the listing began are in it. Those initialised while brokers answer may be or not."""
        names = [
            (str(number), STATE_NAMES[writer.state], state.fence >> number & 1)
            for number, writer in enumerate(state.writers)
            if writer.state != UNKNOWN
            and not writer.left
            and not (writer.state == EMPTY and self._config.breaks("idle ids"))
        ]
        surely = [(name, kafka_state) for name, kafka_state, before in names if before]
        perhaps = [(name, kafka_state) for name, kafka_state, before in names if not before]
        if self._config.breaks("fence, then boundaries"):
            state = self._with_boundaries(state)
        for size in range(len(perhaps) + 1):
            for some in combinations(perhaps, size):
                for at in self._machine.listed_at:
                    node = self._machine.listed(state.node, tuple(sorted((*surely, *some))), at)
                    yield self._listed(state._replace(node=node))

    def _listed(self, state: State) -> Step:
        if self._machine.kind(state.node) != c.FENCE:
            return ("list again", 0, 0), self._afresh(state), None
        ids = self._machine.ids_to_fence(state.node)
        fence = 0 if self._config.breaks("fence") else sum(1 << int(name) for name in ids)
        return ("list", fence, 0), self._fence_left(state, fence), None

    def _fence(self, state: State) -> Iterator[Step]:
        for number, writer in enumerate(state.writers):
            if state.fence >> number & 1 and (taken := taken_over(writer, self._markers)) is not None:
                left = state.fence & ~(1 << number) if taken[1] else state.fence
                after = self._fence_left(with_writer(state, number, taken[0]), left)
                yield ("fence", number, 0), after, None

    def _fence_left(self, state: State, fence: int) -> State:
        """The fence ends with its last id."""
        node = state.node if fence else self._machine.fenced(state.node)
        return state._replace(node=node, fence=fence)

    def _read(self, state: State) -> Iterator[Step]:
        # Once nobody can write, it does not matter that the real one reads partition after partition.
        if not self._config.breaks("fence, then boundaries"):
            state = self._with_boundaries(state)
        yield ("boundaries", 0, 0), state._replace(node=self._machine.read(state.node)), None

    def _with_boundaries(self, state: State) -> State:
        existing = self._machine.existing(state.epoch + 1)
        parts = tuple(
            part._replace(boundary=len(part.entries)) if number < existing else part
            for number, part in enumerate(state.parts)
        )
        return state._replace(parts=parts)

    def _check(self, state: State) -> Iterator[Step]:
        grew = any(0 <= part.boundary < len(part.entries) for part in state.parts)
        if self._config.breaks("closing check"):
            grew = False
        after = state._replace(node=self._machine.checked(state.node, grew))
        if self._machine.kind(after.node) == c.TAKE_BACK:
            after = self._afresh(after)
        # Where records may really be written behind a boundary, it is right to refuse.
        accused = grew and self._config.broken <= {"markers"}
        problem = "the controller takes an ordered writer for a foreign one" if accused else None
        yield ("closing check", int(grew), 0), after, problem

    def _commit(self, state: State) -> Iterator[Step]:
        self._machine.committed(state.node)
        parts = tuple(
            part._replace(starts=(*part.starts, max(0, part.boundary)), boundary=-1) for part in state.parts
        )
        epoch = state.epoch + 1
        after = state._replace(node=self._machine.planned(epoch), epoch=epoch, parts=parts)
        yield ("commit layout", epoch, 0), after, None

    def _cover(self, state: State) -> Iterator[Step]:
        """While no change goes on, whatever writers are doing."""
        covered = self._with_boundaries(state)._replace(node=self._machine.covered(state.node))
        yield ("cover", 0, 0), covered, None

    def _take_back(self, state: State) -> Iterator[Step]:
        """The operator then asks for the same change again."""
        self._machine.taken_back(state.node)
        node = self._machine.planned(state.epoch)
        yield ("take back", 0, 0), self._afresh(state._replace(node=node)), None

    # -- canonical states ---------------------------------------------------------------------------------------

    def _canonical(self, state: State) -> State:
        if state.held and state.held[0] < 0 and not any(part.held > 0 for part in state.parts):
            state = released(state)
        return self._reader.skip_empty(state._replace(parts=tuple(map(canonical, state.parts))))

    def _afresh(self, state: State) -> State:
        """Nothing of an earlier fence and of earlier boundaries is used; a listing may begin."""
        fence = 0
        if self._machine.kind(state.node) == c.LIST:
            fence = sum(
                1 << number
                for number, writer in enumerate(state.writers)
                if writer.state != UNKNOWN and not writer.left
            )
        if any(part.boundary >= 0 for part in state.parts):
            return state._replace(
                fence=fence, parts=tuple(part._replace(boundary=-1) for part in state.parts)
            )
        return state._replace(fence=fence)
