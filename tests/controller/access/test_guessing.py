"""Who guesses passwords is slowed, and keeps nobody else waiting."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.access import passwords
from spark_ordered_kafka.controller.access.passwords import ACCEPTED_TTL, Budget
from spark_ordered_kafka.errors import UnavailableError
from tests.controller.access.test_credentials import Logins


def test_behind_one_proxy_nobody_waits_for_the_guesses_at_somebody_else() -> None:
    kafka = Logins()
    kafka.users["bob"] = "bobs"
    for n in range(30):
        assert not kafka.proves(f"guess {n}", username="mallory")
    slept = kafka.slept
    assert kafka.proves("secret")
    assert kafka.proves("bobs", username="bob")
    assert kafka.slept == slept


def test_who_was_right_before_waits_for_no_guesses_at_the_same_user() -> None:
    kafka = Logins()
    assert kafka.proves("secret")
    kafka.now += ACCEPTED_TTL
    for n in range(20):
        assert not kafka.proves(f"guess {n}")
    slept, asked = kafka.slept, len(kafka.asked)
    assert kafka.proves("secret")
    assert (kafka.slept, len(kafka.asked)) == (slept, asked + 1), "proven anew, and at once"


def test_a_password_that_is_right_no_more_is_a_guess() -> None:
    kafka = Logins()
    assert kafka.proves("secret")
    kafka.users["alice"] = "other"
    kafka.now += ACCEPTED_TTL
    assert not kafka.proves("secret")
    for n in range(20):
        assert not kafka.proves(f"guess {n}")
    slept = kafka.slept
    kafka.now += passwords.REFUSED_TTL
    assert not kafka.proves("secret")
    assert not kafka.proves("guess")
    assert kafka.slept > slept, "it has cost as much as any other"


def test_right_ones_are_not_forgotten_for_many_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MAX_ENTRIES", 20)
    kafka = Logins()
    assert kafka.proves("secret")
    for n in range(40):
        assert not kafka.proves("guess", username=f"user {n}")
    kafka.now += ACCEPTED_TTL
    slept = kafka.slept
    assert kafka.proves("secret")
    assert kafka.slept == slept


def test_few_guesses_at_many_users_are_bounded_by_address_and_in_all() -> None:
    kafka = Logins()
    for n in range(100):
        assert not kafka.proves("guess", host="2001:db8:1:2:0:0:0:1", username=f"user {n}")
    assert kafka.slept > 9, "50 at once, then 5 a second"
    slept = kafka.slept
    assert not kafka.proves("guess", host="2001:db8:1:2:9:9:9:9", username="user x")
    assert kafka.slept > slept, "the same network"
    slept = kafka.slept
    assert kafka.proves("secret", host="10.0.0.1")
    assert kafka.slept == slept, "another one"
    for n in range(400):
        assert not kafka.proves("guess", host=f"10.1.{n // 250}.{n % 250}", username=f"other {n}")
    assert kafka.slept > slept


def test_what_the_budget_of_an_address_rejects_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_NETWORK_BUDGET", (1 / 12, 9))
    kafka = Logins()
    for n in range(8):
        assert not kafka.proves(f"guess {n}"), "alice has to wait for 5 s after each by now"
    with pytest.raises(UnavailableError):
        assert not any(kafka.proves("guess", username=f"user {n}") for n in range(9))
    for n in range(10):
        with pytest.raises(UnavailableError):
            kafka.proves(f"another {n}")
    kafka.now += 2.1  # then the budget is there within 10 s
    assert kafka.proves("secret")


def test_while_the_threads_are_busy_with_guesses_those_who_were_right_go_first() -> None:
    kafka = Logins()
    assert kafka.proves("secret")
    kafka.now += ACCEPTED_TTL
    kafka.gate.clear()
    kafka.login = lambda user, password: user == "alice" or kafka.judged(user, password)

    async def crowded() -> bool:
        guesses = [
            asyncio.ensure_future(kafka.prover.proves(f"user {n}", "guess", "h"))
            for n in range(passwords.MAX_PENDING // 2)
        ]
        await asyncio.sleep(0)
        found = await kafka.prover.proves("alice", "secret", "h")
        assert not any(guess.done() for guess in guesses)
        kafka.gate.set()
        await asyncio.gather(*guesses)
        return found

    assert asyncio.run(crowded())


def test_proofs_that_do_not_fail_cost_nothing() -> None:
    kafka = Logins()
    kafka.users = {f"user {n}": "right" for n in range(500)}
    assert all(kafka.proves("right", username=user) for user in kafka.users)
    assert kafka.slept == 0


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), max_size=200))
def test_a_budget_is_kept_whatever_comes(steps: list[tuple[float, bool]]) -> None:
    budget, now, failed = Budget(5.0, 10), 0.0, list[float]()
    for pause, fails in steps:
        now += pause
        try:
            at = budget.reserve("h", now)
        except UnavailableError:
            continue
        assert now <= at <= now + 10.0
        if fails:
            failed.append(at)
        else:
            budget.refund("h")
    for i, first in enumerate(failed):
        for j in range(i, len(failed)):
            # Of those within a second there are no more than the burst and what one second earns.
            assert j - i + 1 <= 10 + 5.0 * (max(failed[i : j + 1]) - first) + 1.001
