"""Places for producer instances: as many as the process's open files allow, and none is lost."""

from __future__ import annotations

import os
import resource
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.open_instances import OPEN_INSTANCES, OpenInstances
from tests.servers import TIMEOUT, await_true


@given(st.integers(0, 200), st.lists(st.booleans(), max_size=60))
def test_there_are_as_many_as_the_files_allow(files: int, steps: list[bool]) -> None:
    places = OpenInstances(lambda: files)
    taken = 0
    for is_taken in steps:
        if is_taken:
            assert places.take() is (taken < places.most)
            taken = min(taken + 1, places.most)
        elif taken > 0:
            places.give_back()
            taken -= 1


@pytest.mark.parametrize(
    ("files", "brokers", "most"),
    [(0, 1, 4), (1024, 1, 48), (1024, 3, 27), (1024, 50, 4), (10**6, 1, 768), (10**6, 100, 768)],
)
def test_more_brokers_need_more_files(files: int, brokers: int, most: int) -> None:
    places = OpenInstances(lambda: files, lambda: 1024)
    places.brokers = brokers
    assert places.most == most
    assert ("1024 thread-local keys" if most == 768 else f"{files} files") in places.why


def test_a_process_without_a_limit_has_places_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)
    assert OpenInstances(key_limit=lambda: sys.maxsize).most > 1_000_000


def test_who_waits_gets_the_next_place() -> None:
    places = OpenInstances(lambda: 0)
    assert all(places.take() for _ in range(places.most))
    assert not places.await_one(0.0)
    assert not places.is_short
    got: list[bool] = []
    waiting = threading.Thread(target=lambda: got.append(places.await_one(TIMEOUT)))
    waiting.start()
    await_true(lambda: places.is_short, "it waits")
    places.give_back()
    waiting.join(TIMEOUT)
    assert got == [True]
    assert not places.is_short
    assert not places.take()


def test_a_forked_process_has_places_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPEN_INSTANCES, "_taken", OPEN_INSTANCES.most)
    assert not OPEN_INSTANCES.take()
    child = os.fork()
    if child == 0:
        os._exit(0 if OPEN_INSTANCES.take() else 1)
    assert os.waitpid(child, 0) == (child, 0)
