"""Requests about several topics: one after another, each with a result of its own."""

from __future__ import annotations

import contextvars
import logging
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import Executor, Future
from typing import TypeVar

from spark_ordered_kafka.errors import OrderedKafkaError, RequestError, invalid_request

_log = logging.getLogger(__name__)
_ValueT = TypeVar("_ValueT")

MAX_TOPICS = 10_000
"""Topics of a request. A body has room for millions, whose results would take gigabytes."""


def check_named(topics: Sequence[str]) -> dict[str, RequestError]:
    """Topics that a request names more than once, each with its refusal; as in Kafka, the others are carried out (D-135).

    Raises RequestError INVALID_REQUEST when it names no topic, or more than :data:`MAX_TOPICS`.
    """
    check_number("topic", topics, MAX_TOPICS)
    return {
        topic: invalid_request(f"topics names {topic[:250]!r} {count} times: name it once")
        for topic, count in Counter(topics).items()
        if count > 1
    }


def check_number(what: str, items: Sized, most: int) -> None:
    """Raises RequestError INVALID_REQUEST when there are none, or more than ``most``; ``what`` names one of them."""
    if not items:
        raise invalid_request(f"{what}s is empty: name at least one {what}")
    if len(items) > most:
        raise invalid_request(f"{what}s names {len(items)} {what}s: at most {most} are taken at once")


def in_order(executor: Executor, work: Sequence[Callable[[], _ValueT]]) -> list[Future[_ValueT]]:
    """Run the calls of ``work`` one after another in a thread of ``executor``; a future of each.

    Skips calls whose future was cancelled before.
    """
    futures: list[Future[_ValueT]] = [Future() for _ in work]

    def run() -> None:
        for call, future in zip(work, futures, strict=True):
            if not future.set_running_or_notify_cancel():
                continue
            try:
                value = call()
            except OrderedKafkaError as error:
                _log.info("refused or failed: %s", error)
                future.set_exception(error)
            except Exception as error:  # noqa: BLE001 - raised where its result is read
                _log.exception("met a bug")
                future.set_exception(error)
            else:
                future.set_result(value)

    # The log lines of the work have the id of its request.
    executor.submit(contextvars.copy_context().run, run)
    return futures
