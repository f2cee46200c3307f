"""How many connections a process has room for."""

from __future__ import annotations

import resource

import pytest

from spark_ordered_kafka.controller.api.connections import raise_file_limit


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "afterwards"),
    [
        (1024, 524_288, 5000, 5500),
        (1024, 4096, 3596, 4096),
        (1024, 1024, 524, 1024),
        (256, 256, 128, 256),
        (100_000, 100_000, 5000, 100_000),
        (1024, resource.RLIM_INFINITY, 5000, 5500),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 5000, resource.RLIM_INFINITY),
    ],
)
def test_room_is_made_within_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, connections: int, afterwards: int
) -> None:
    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: limits.__setitem__(slice(None), given))
    assert raise_file_limit() == connections
    assert tuple(limits) == (afterwards, hard)
