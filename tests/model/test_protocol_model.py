"""The change protocol keeps its guarantee in every interleaving, and each of its rules is needed for that (D-209).

``pytest -rP`` shows the number of states of each configuration, and the counterexample to each broken rule.
"""

from __future__ import annotations

import random
import sys

import pytest

from tests.model.protocol import Protocol
from tests.model.search import Exploration, Search
from tests.model.state import RULES, Config

# With 2 initial partitions, hash 2 belongs to partition 0, with 3 to partition 2, and with 2 again to partition 0.
MOVES_TWICE = ((2,), (2,))
# Those with the most states; the others have each of their parts.
LARGE = (
    "two writers, 3 partitions, 2 changes",
    "two writers, late requests of dead controllers",
    "transactions of two records of a key",
    "a partition skipped while a reader lags",
    "transactions over two partitions",
    "a covering layout between two changes",
)
CORRECT = {
    "two writers, 3 partitions, 2 changes": Config((2, 3, 2), MOVES_TWICE, writers=2),
    "two writers, late requests of dead controllers": Config(
        (2, 3), MOVES_TWICE, writers=2, late_fences=True
    ),
    "transactions of two records of a key": Config((2, 3, 2), ((2, 2),), writers=2),
    "transactions over two partitions": Config((1, 2, 3), ((1, 2), (1, 2))),
    "shrink of a partition with two keys in a transaction": Config((2, 3, 2), ((2, 0), (2, 0))),
    "a partition skipped while a reader lags": Config((1, 2, 4), ((3,), (3,), (3,))),
    "drain, late requests of dead controllers": Config((2, 3, 2), MOVES_TWICE, drain=True, late_fences=True),
    "a covering layout between two changes": Config((2, 3, 3, 2), MOVES_TWICE),
    "a covering layout before a change": Config((2, 2, 3), MOVES_TWICE),
    "forced changes": Config((2, 3, 2), MOVES_TWICE, force=True),
}


def explore(config: Config) -> Exploration:
    found = Search(Protocol(config)).run()
    sys.stdout.write(f"{found}\n")
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in CORRECT]
)
def test_the_protocol_keeps_every_key_in_order_and_never_gets_stuck(name: str) -> None:
    found = explore(CORRECT[name])
    assert found.counterexample is None, str(found)
    assert found.states > 1000


@pytest.mark.long
def test_a_covering_layout_under_two_writers_keeps_every_key_in_order() -> None:
    found = explore(Config((2, 2, 3), MOVES_TWICE, writers=2))
    assert found.counterexample is None, str(found)


TOO_EARLY, TWICE, STUCK = "is delivered too early", "is delivered twice", "can be finished any more"
ACCUSED = "takes an ordered writer for a foreign one"
BROKEN = [
    ({"init, check, write"}, TOO_EARLY, {}),
    ({"closing"}, TOO_EARLY, {}),
    ({"ledger"}, TWICE, {}),
    ({"fence"}, TOO_EARLY, {}),
    ({"markers"}, ACCUSED, {}),
    ({"idle ids"}, TOO_EARLY, {}),
    ({"ids left by a fence"}, TOO_EARLY, {}),
    ({"fence, then boundaries", "closing check"}, TOO_EARLY, {}),
    ({"fence, then boundaries"}, TOO_EARLY, {"force": True}),
    ({"producer epochs"}, TOO_EARLY, {}),
    ({"ends, then layout"}, TOO_EARLY, {}),
    ({"gate"}, TOO_EARLY, {}),
    ({"all earlier epochs"}, TOO_EARLY, {"counts": (1, 2, 4), "transactions": ((3,), (3,))}),
    ({"process, then commit"}, TOO_EARLY, {}),
    ({"process, then commit"}, STUCK, {"transactions": ((2,),)}),
    ({"last stable offset"}, TWICE, {}),
]


@pytest.mark.parametrize(
    ("broken", "problem", "options"), BROKEN, ids=[" and ".join(sorted(b[0])) for b in BROKEN]
)
def test_breaking_a_rule_is_found(broken: set[str], problem: str, options: dict[str, object]) -> None:
    settings: dict[str, object] = {"counts": (2, 3, 2), "transactions": MOVES_TWICE, **options}
    # Without the check of layout_epoch, which most of them fail first.
    found = explore(Config(broken=frozenset(broken), judge_epochs=False, **settings))  # type: ignore[arg-type]
    assert found.counterexample is not None
    assert problem in found.counterexample.problem


def test_every_rule_is_broken_by_some_test() -> None:
    assert set().union(*(broken for broken, _, _ in BROKEN)) == set(RULES)


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [{"closing check"}, {"fence, then boundaries"}, {"markers", "closing check"}],
    ids=lambda rules: " and ".join(sorted(rules)),
)
def test_the_closing_check_is_a_second_line(broken: set[str]) -> None:
    """Without it the order still holds; with it, boundaries read too early are betrayed by a log that grew since.

    Markers behind a boundary hurt nobody; the fence awaits them so that the check does not refuse because of them.
    """
    found = explore(Config((2, 3, 2), MOVES_TWICE, broken=frozenset(broken)))
    assert found.counterexample is None, str(found)


@pytest.mark.long
def test_every_kind_of_step_is_explored() -> None:
    model = Protocol(Config((2, 3), ((2, 0), (2,)), writers=1, late_fences=True, drain=True))
    search = Search(model)
    assert search.run().counterexample is None
    kinds = {action[0] for state in search.states for action, _, _ in model.successors(state)}
    assert kinds == TROUBLE | {
        *("init", "check", "send", "commit", "commit marker", "abort marker", "close", "list", "fence"),
        *("boundaries", "closing check", "commit layout", "take ends", "read"),
    }


TROUBLE = {
    *("crash", "fenced", "abort", "timeout", "late fence", "commit unknown", "list again", "disturbance"),
    *("take back", "controller crash", "reader crash", "fence ahead"),
}
WALKS, STEPS = 60, 400


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_random_walks_through_a_configuration_too_large_to_explore(seed: int) -> None:
    """Three writers, two keys that move, four layouts. Safety only; one step of trouble in eight."""
    chance = random.Random(seed)
    sys.stdout.write(f"seed {seed}\n")
    config = Config((2, 3, 4, 2), ((2, 3), (3,), (2,), (3, 2)), writers=3, late_fences=True, drain=True)
    model, finished = Protocol(config), 0
    for _ in range(WALKS):
        state, trace = model.initial(), []
        for _ in range(STEPS):
            steps = list(model.successors(state))
            calm = [step for step in steps if step[0][0] not in TROUBLE]
            action, after, problem = chance.choice(calm if calm and chance.random() > 1 / 8 else steps)
            trace.append(model.describe(action, state, after))
            assert problem is None, "\n".join((f"seed {seed}: {problem}", *trace))
            state = after
        finished += model.is_goal(state)
    assert finished > 0, f"seed {seed}: no walk came to its end, so they test little"
