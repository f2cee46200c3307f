"""A progress bar over a partition change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ChangeView, FinishedChangeView, TopicChange
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

_STEPS = ("planned", "creating", "closing", "fencing", "boundaries", "committing")
_POLL = 0.1
_TIMEOUT = 600.0

_AnswerT = TypeVar("_AnswerT")


def answers(
    ask: Callable[[], _AnswerT], timeout: float, interval: float = _POLL
) -> Iterator[_AnswerT | None]:
    """What ``ask`` returns, again and again for ``timeout`` seconds; None where no controller answered."""
    deadline = time.monotonic() + timeout
    while True:
        answer: _AnswerT | None = None
        try:
            answer = ask()
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
        yield answer
        if time.monotonic() >= deadline:
            return
        time.sleep(interval)  # the controller has no call that tells progress by itself


def watch(
    client: ControllerClient, topic: str, change_id: str, timeout: float = _TIMEOUT
) -> tuple[TopicChange, FinishedChangeView]:
    """Show the change on stderr until it has ended; the last answer and how the change ended.

    A controller that is away meanwhile is waited for. Raises UnavailableError after ``timeout`` seconds.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"{topic}: planned", total=len(_STEPS))
        for answer in answers(lambda: client.change(topic), timeout):
            if answer is None:
                progress.update(bar, description=f"{topic}: waiting for a controller")
                continue
            change = answer.change
            if change is None or change.id != change_id:
                return answer, _ended(answer, topic, change_id)
            progress.update(bar, completed=_completed(change), description=_describe(topic, change))
    raise UnavailableError(
        f"change {change_id} of topic {topic!r} had not ended after {timeout:g} s; it goes on"
    )


def _ended(answer: TopicChange, topic: str, change_id: str) -> FinishedChangeView:
    last = answer.last_change
    if last is None or last.id != change_id:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"change {change_id} of topic {topic!r} ended and another came after it",
        )
    return last


def _completed(change: ChangeView) -> float:
    within = change.fenced / change.total_fences if change.step == "fencing" and change.total_fences else 0.0
    return _STEPS.index(change.step) + within


def _describe(topic: str, change: ChangeView) -> str:
    fences = f" {change.fenced}/{change.total_fences}" if change.step == "fencing" else ""
    return f"{topic}: {shown(change)}, {change.step}{fences}"


def shown(change: ChangeView | FinishedChangeView) -> str:
    """What a change changes, as ``2 -> 4``."""
    if change.kind in ("order", "unorder"):
        return f"ordered delivery {'on' if change.kind == 'order' else 'off'}"
    return f"{change.source} -> {change.target}"
