"""How the calls of a program of operators ask: again and again, at once, and until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError

TIMEOUT = 60.0
_CHANGING = "PARTITION_CHANGE_IN_PROGRESS"

Tries = list[list[str]]
"""What was answered: once per try, a name of an error for each topic, ``NONE`` without one."""


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What calls return that begin at the same time."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [one.result(4 * TIMEOUT) for one in [threads.submit(call) for call in calls]]


def first_error(rows: Sequence[schemas.Result]) -> Sequence[schemas.Result]:
    return [one for one in rows if one.error != "NONE"][:1] or [schemas.Result()]


def tries(ask: Callable[[], Iterable[schemas.Result]]) -> Tries:
    """Ask until the answer is not that one should ask again."""
    deadline = time.monotonic() + 2 * TIMEOUT
    said: Tries = []
    while True:
        try:
            said.append([str(one.error) for one in ask()])
        except RequestError as error:
            said.append([error.name])
        except OrderedKafkaError as error:
            said.append([type(error).__name__])
        if not any(map(_is_retriable, said[-1])) or time.monotonic() > deadline:
            return said
        time.sleep(0.2)


def _is_retriable(name: str) -> bool:
    if name == "NONE" or name == _CHANGING:
        return False
    return name not in ErrorCode.__members__ or RequestError(ErrorCode[name], "").retriable


def await_(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it holds within some seconds: what is asked at once may make it otherwise again."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds
