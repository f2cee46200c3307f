"""What operators, another tool, writers and readers ask of a topic, and what they may be answered. PURE.

The model is a set of states that a topic may be in. A request is entered by its answer: what does not allow that answer
is not the state. Where none is left, the answer breaks a promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.programs.operator_states import State

DONE = "NONE"
_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
_INVALID_TOPIC = "INVALID_TOPIC_EXCEPTION"
"""KIP-195's word for a topic that is unknown to a request about several."""
_EXISTS = "TOPIC_ALREADY_EXISTS"
_CHANGING = "PARTITION_CHANGE_IN_PROGRESS"
_MOVING = "REASSIGNMENT_IN_PROGRESS"
_WRONG = "INVALID_PARTITIONS"
_INVALID = "INVALID_REQUEST"
_TRUNCATED = "LOG_TRUNCATED"
_FULL = "GUARD_RAILS"
BROKER_DOWN = frozenset({"UNKNOWN_MEMBER_ID", "INVALID_REPLICATION_FACTOR"})
"""A broker that is named, or needed for so many replicas, does not run."""
REFUSED = "refused"
"""A write or a read was, whatever the error."""
AGAIN = frozenset({"UnavailableError", "REQUEST_TIMED_OUT", "NOT_CONTROLLER"})
"""It may have been done or not, and is asked again."""

Outcome = tuple[str, State]


@dataclass(frozen=True)
class Request:
    """A request, of the operator ``who``, about one topic or several."""

    who: int
    what: str
    topics: tuple[int, ...] = (0,)
    count: int = 2
    wait: bool = True
    dry: bool = False
    force: bool = False
    batch: int = 0
    brokers: tuple[int, ...] = (1,)

    def code(self) -> str:
        """Python."""
        topics = f"[{', '.join(f't{one}' for one in self.topics)}]"
        dry, force = ", dry=True" if self.dry else "", ", force=True" if self.force else ""
        wait = "" if self.wait else ", wait=0"
        calls = {
            "create": f"create({self.who}, {topics}, {self.count}{dry})",
            "alter": f"alter({self.who}, {topics}, {self.count}{wait}{dry}{force})",
            "delete": f"delete({self.who}, {topics}{dry})",
            "cancel": f"cancel({self.who}, {topics})",
            "release": f"release({self.who}, {topics}{dry}{force})",
            "adopt": f"adopt({self.who}, {topics}{dry}{force})",
            "configure": f"configure({self.who}, {topics}, ordered={self.force}{wait}{dry})",
            "trim": f"trim({self.who}, {topics}{dry}{force})",
            "move": f"move({self.who}, {topics}, {[*self.brokers]}{wait}{dry}{force})",
            "abandon": f"abandon({self.who}, {topics})",
            "factor": f"factor({self.who}, {topics}, {self.count}{wait}{dry})",
            "limit": f"limit({self.who}, {self.brokers[0]}, {None if self.force else self.count})",
            "make": f"make({topics}, {self.count})",
            "grow": f"grow({topics}, {self.count})",
            "erase": f"erase({topics})",
            "write": f"write({self.who}, {topics}, {self.batch})",
            "read": f"read({self.who}, {topics})",
        }
        return f"use.{calls[self.what]}"

    def outcomes(self, state: State) -> set[Outcome]:
        """The answers that the request may get, and what is so then."""
        found: set[Outcome] = set()
        for now in state.later():
            pairs = getattr(self, f"_{self.what}")(now)
            if self.dry:
                pairs = {(answer, now) for answer, _ in pairs}
            found |= pairs | {(again, one) for again in AGAIN for _, one in (*pairs, ("", now))}
        return found

    # -- operators ----------------------------------------------------------------------------------------------

    def _create(self, state: State) -> set[Outcome]:
        if state.kafka:
            return {(_EXISTS, state)}
        return {(DONE, state.emptied(self.count).managed())} | _limited(state)

    def _alter(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_INVALID_TOPIC, state)}
        if state.is_changing:
            return {(_CHANGING, state)}
        if state.is_gone:
            return {(answer, state) for answer in (_UNKNOWN, _INVALID_TOPIC, _TRUNCATED, _WRONG)}
        if self.count < state.initial or self.count == state.count:
            return {(_WRONG, state)}
        return {(DONE, replace(state, target=self.count))} | _held_up(state) | _limited(state)

    def _cancel(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if not state.is_changing:
            return {(_INVALID, state)}
        return {(_CHANGING, state), (DONE, replace(state, cancelled=True))}

    def _release(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if state.is_changing:
            return {(_CHANGING, state)}
        # A group may not have read all that was written before the last change.
        behind = {(_INVALID, state)} if state.changed and state.written and not self.force else set()
        return {(DONE, state.unmanaged())} | behind | _held_up(state)

    def _adopt(self, state: State) -> set[Outcome]:
        if state.count and state.own:
            return {(_EXISTS, state)}
        if not state.kafka:
            return {(_UNKNOWN, state)}
        done = {(DONE, state.managed())}
        if not self.force and (not state.ordered or not state.counts <= {(state.kafka, state.kafka)}):
            # What was sampled may fit all the same.
            done |= {(_INVALID, state)}
        return done

    def _delete(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if state.is_changing:
            return {(_CHANGING, state)}
        return {(DONE, state.unmanaged() if state.is_gone else state.emptied(0).unmanaged())}

    def _configure(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if state.fences == self.force and not state.switching and not state.is_gone:
            return {(DONE, state)}
        if state.is_changing:
            return {(_CHANGING, state)}
        if state.is_gone:
            return {(answer, state) for answer in (_UNKNOWN, _TRUNCATED)}
        # Writers that nothing fences write on by the layout that they know.
        return {(DONE, replace(state, switching=True, ordered=False))}

    def _trim(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_UNKNOWN, state)}
        if state.is_gone:
            return {(answer, state) for answer in (_UNKNOWN, _TRUNCATED)}
        # A group may not have read what lies there.
        behind = {(_INVALID, state)} if state.changed and state.written and not self.force else set()
        return {(DONE, replace(state, trimmed=True))} | behind

    def _move(self, state: State) -> set[Outcome]:
        if not state.kafka:
            return {(_INVALID_TOPIC, state)}
        # Others may be moved, or all may be where it says.
        found = {
            (DONE, replace(state, moving=True)),
            *((one, state) for one in (_MOVING, _INVALID, *BROKER_DOWN)),
        }
        found |= _limited(state)
        return found | {(_CHANGING, state)} if state.is_changing else found

    def _abandon(self, state: State) -> set[Outcome]:
        return {(answer, state) for answer in (DONE, _INVALID, "NO_REASSIGNMENT_IN_PROGRESS")}

    def _factor(self, state: State) -> set[Outcome]:
        if not state.count:
            return {(_INVALID_TOPIC, state)}
        if state.is_changing:
            return {(_CHANGING, state)}
        if state.is_gone:
            return {(answer, state) for answer in (_UNKNOWN, _INVALID_TOPIC, _TRUNCATED)}
        # With another request about the same topic it may have ended otherwise than asked.
        ended = {(answer, replace(state, moving=not self.wait)) for answer in (DONE, _INVALID)}
        return ended | _held_up(state) | _limited(state) | {(one, state) for one in BROKER_DOWN}

    def _limit(self, state: State) -> set[Outcome]:
        return {(DONE, replace(state, limited=not self.force))}

    # -- another tool -------------------------------------------------------------------------------------------

    def _make(self, state: State) -> set[Outcome]:
        if state.kafka:
            return {(_EXISTS, state)}
        return {(DONE, state.emptied(self.count))}

    def _grow(self, state: State) -> set[Outcome]:
        if not state.kafka:
            return {(_UNKNOWN, state)}
        if self.count <= state.kafka:
            return {(_WRONG, state)}
        # A layout covers what is managed.
        return {(DONE, replace(state, kafka=self.count, changed=state.changed or state.own))}

    def _erase(self, state: State) -> set[Outcome]:
        if not state.kafka:
            return {(_UNKNOWN, state)}
        return {(DONE, state.emptied(0))}

    # -- writers and readers ------------------------------------------------------------------------------------

    def _read(self, state: State) -> set[Outcome]:
        return {(DONE, state)}

    def _write(self, state: State) -> set[Outcome]:
        # A namesake that another tool made keeps the writers of the deleted topic until it is adopted.
        if not state.count or not state.kafka:
            return set()
        counts = {(state.initial, state.count), (state.initial, state.target or state.count)}
        return {(DONE, replace(state, written=state.written | {self.batch}, counts=state.counts | counts))}


def _held_up(state: State) -> set[Outcome]:
    return {(_MOVING, state)} if state.moving else set()


def _limited(state: State) -> set[Outcome]:
    return {(_FULL, state)} if state.limited else set()


@dataclass(frozen=True)
class _Ended:
    """The end of a change that was waited for; a switch that there was no need of waits for none of the count."""

    request: Request

    def outcomes(self, state: State) -> set[Outcome]:
        is_switch = self.request.what == "configure"
        ended = {one for one in state.later() if not (one.switching if is_switch else one.is_changing)}
        return {(DONE, one) for one in ended} | {("failed", one) for one in ended if one.is_gone}


@dataclass(frozen=True)
class _Cleared:
    """What is left of a deleted topic leaves before another one is created under its name."""

    def outcomes(self, state: State) -> set[Outcome]:
        return {(DONE, state.unmanaged() if state.is_gone else state)}


MOVED = frozenset({"done", "failed", "cancelled"})
"""How a reassignment ends."""


@dataclass(frozen=True)
class _Moved:
    """The end of a reassignment that was waited for."""

    def outcomes(self, state: State) -> set[Outcome]:
        return {(how, replace(state, moving=False)) for how in MOVED}


@dataclass(frozen=True)
class _Refused:
    """A write that was refused, which is there only if the answer was lost, or a read that was.

    ``lives``: of the topic when that client wrote or read last; those of another topic end with an error.
    """

    request: Request
    lives: frozenset[int]

    def outcomes(self, state: State) -> set[Outcome]:
        if state.can_be_written and state.life in self.lives:
            return set()
        return {(REFUSED, one) for one in (state, *(then for _, then in self.request.outcomes(state)))}


class _Any(frozenset[int]):
    """Has every number."""

    def __contains__(self, _: object) -> bool:
        return True


_ANY = _Any()


@dataclass(frozen=True)
class Asked:
    """A request, what it was answered about one topic, once per try, and the lives that its client has seen."""

    request: Request
    answers: tuple[str, ...]
    lives: frozenset[int] = _ANY


_Event = tuple[Request | _Cleared | _Ended | _Moved | _Refused, str]


def after(asked: Sequence[Asked], states: set[State]) -> set[State]:
    """The states that allow these answers, one per try, in some order of what was asked at once."""
    found: set[State] = set()
    stories = [_events(one) for one in asked]
    orders = [*_merged(stories)]
    if (
        len(asked) == 2
        and _is_one(*(one.request for one in asked))
        and stories[0][-1][1] == stories[1][-1][1]
    ):
        orders += _merged([stories[0], stories[1][:-1]])
    for order in orders:
        left = states
        for event, answer in order:
            left = {state for one in left for said, state in event.outcomes(one) if said == answer}
        found |= left
    return found


def _is_one(first: Request, second: Request) -> bool:
    """Whether the second one waits for what the first one has begun, and gets its answer."""
    return first.what == second.what in ("delete", "release") and not first.dry and not second.dry


def _events(asked: Asked) -> list[_Event]:
    request, answers = asked.request, asked.answers
    if request.what in ("write", "read"):
        # Who was refused once is a new client.
        at = answers.index(REFUSED) if REFUSED in answers else len(answers)
        return [
            (
                request if answer != REFUSED else _Refused(request, asked.lives if place == at else _ANY),
                answer,
            )
            for place, answer in enumerate(answers)
        ]
    if request.what in ("alter", "configure") and request.wait and not request.dry and answers[-1] == DONE:
        return [*((request, answer) for answer in answers), (_Ended(request), DONE)]
    if request.what == "create" and not request.dry and answers[-1] == DONE:
        return [*((request, answer) for answer in answers[:-1]), (_Cleared(), DONE), (request, DONE)]
    return [(_Moved() if answer in MOVED else request, answer) for answer in answers]


def _merged(stories: Sequence[Sequence[_Event]]) -> Iterator[list[_Event]]:
    """Every order that keeps the order of each story."""
    if not any(stories):
        yield []
    for index, story in enumerate(stories):
        if story:
            rest = [*stories[:index], story[1:], *stories[index + 1 :]]
            yield from ([story[0], *order] for order in _merged(rest))
