"""Progress of the controller's work: poll it, show each answer on stderr, return the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

WAITING = "waiting for a controller"
_POLL = 0.2
_POLL_SHARE = 4.0
"""The pause after a slow answer, as a multiple of the answer's time."""
_STALL_TIMEOUT = 600.0
"""Seconds without progress after which ``follow`` gives up."""
_LINE_INTERVAL = 5.0

_AnswerT = TypeVar("_AnswerT")
Show = Callable[[_AnswerT | None], None]
"""Shows an answer; None: no controller answered."""


@dataclass(frozen=True)
class Extent:
    """Progress: a bar's description, the length of its filled part, and its whole length."""

    text: str
    done: float
    total: float


def follow(
    ask: Callable[[], _AnswerT],
    display: AbstractContextManager[Show[_AnswerT]],
    has_ended: Callable[[_AnswerT | None, _AnswerT], bool],
    *,
    unfinished: str,
    progressed: Callable[[_AnswerT, _AnswerT], bool] = lambda before, now: before != now,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _AnswerT:
    """Show what ``ask`` returns until ``has_ended``; return the last answer.

    ``has_ended`` and ``progressed`` compare an answer with the one before it. A retriable error of ``ask`` counts as no
    answer. Raises UnavailableError with the text ``unfinished`` after 10 minutes without progress, and every other error
    of ``ask``.
    """
    before: _AnswerT | None = None
    progress_at = clock()
    with display as show:
        while True:
            asked, now, stalled = clock(), None, f"nothing has changed for {_STALL_TIMEOUT:g} s"
            try:
                now = ask()
            except OrderedKafkaError as error:
                if not error.retriable:
                    raise
                stalled = str(error)
            show(now)
            if now is not None:
                if has_ended(before, now):
                    return now
                if before is None or progressed(before, now):
                    progress_at = clock()
                before = now
            if clock() - progress_at > _STALL_TIMEOUT:
                raise UnavailableError(f"{stalled}; {unfinished}")
            # The controller's API has no push of progress.
            sleep(max(_POLL, _POLL_SHARE * (clock() - asked)))


@contextmanager
def bar(extent: Callable[[_AnswerT], Extent], *columns: ProgressColumn) -> Iterator[Show[_AnswerT]]:
    """One bar, with ``columns`` between it and the elapsed time."""
    layout = (TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    with Progress(*layout, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(WAITING, total=None)

        def show(answer: _AnswerT | None) -> None:
            if answer is None:
                progress.update(task, description=WAITING)
                return
            now = extent(answer)
            progress.update(task, description=now.text, completed=now.done, total=now.total)

        yield show


@contextmanager
def lines(
    text: Callable[[_AnswerT], str],
    write: Callable[[str], None] = lambda line: typer.echo(line, err=True),
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Show[_AnswerT]]:
    """A line at the beginning and the end, and every few seconds where something has changed."""
    written, latest, written_at = "", "", clock() - _LINE_INTERVAL

    def show(answer: _AnswerT | None) -> None:
        nonlocal written, latest, written_at
        latest = WAITING if answer is None else text(answer)
        if latest != written and clock() - written_at >= _LINE_INTERVAL:
            write(latest)
            written, written_at = latest, clock()

    yield show
    if latest != written:
        write(latest)
