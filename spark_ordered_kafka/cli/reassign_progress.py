"""Live progress of a reassignment: bars on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from spark_ordered_kafka.cli.units import shown_bytes, shown_rate, shown_seconds
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReassignmentSummary, ReassignmentView
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

_POLL = 0.25
_POLL_SHARE = 4.0
"""An answer that took long is asked for less often: after so many times the time that it took."""
_SILENCE = 600.0
_LINE_INTERVAL = 5.0
_OTHER_LINES = 4
"""Lines of a terminal that bars of brokers leave free."""
_BAR_WIDTH = 30
_WAITING = "waiting for a controller"

RequestId = int | Literal["latest"]
Show = Callable[[ReassignmentView | None], None]
"""Shows the request as it is; None: no controller answered."""


@dataclass(frozen=True)
class Copied:
    """Bytes that are there, and bytes that there will be; None: not known of some replica."""

    done: int
    total: int | None

    @property
    def percent(self) -> float | None:
        """0 to 100."""
        return None if self.total is None else 100.0 * self.done / max(1, self.total)

    def __str__(self) -> str:
        total = "?" if self.total is None else shown_bytes(self.total)
        return f"{shown_bytes(self.done)} of {total}"


def follow(client: ControllerClient, request_id: RequestId) -> ReassignmentView:
    """Show the request until it has ended; the request as it is then.

    A controller that is away meanwhile is waited for. Raises UnavailableError when none answers for 10 minutes.
    """
    asked = views(client, request_id)
    with display() as show:
        while True:
            view = next(asked)
            show(view)
            if view is not None and has_ended(view):
                return view


def views(
    client: ControllerClient,
    request_id: RequestId,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[ReassignmentView | None]:
    """The request as it is, again and again; None where no controller answered."""
    answered = clock()
    while True:
        asked, view = clock(), None
        try:
            view = client.reassignment(request_id)
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            if clock() - answered > _SILENCE:
                raise UnavailableError(f"{error}; request {request_id} goes on") from error
        else:
            # Another may come after it: the one that is the latest now is meant.
            request_id, answered = view.request_id, clock()
        took = clock() - asked
        yield view
        sleep(max(_POLL, _POLL_SHARE * took))  # the controller has no call that tells progress by itself


def has_ended(view: ReassignmentSummary) -> bool:
    """Whether nothing is left to do for a request."""
    return view.state not in ("running", "cancelling")


def overall(view: ReassignmentSummary) -> Copied:
    """Of all replicas."""
    return Copied(view.numerator, None if view.denominator < 0 else view.denominator)


def by_broker(view: ReassignmentView) -> dict[int, Copied]:
    """Of each broker that receives, in the order of their ids."""
    found: dict[int, Copied] = {}
    for row in view.replicas:
        sofar = found.get(row.broker, Copied(0, 0))
        known = sofar.total is not None and row.denominator >= 0
        total = sofar.total + row.denominator if known and sofar.total is not None else None
        found[row.broker] = Copied(sofar.done + row.numerator, total)
    return dict(sorted(found.items()))


def counts(view: ReassignmentSummary) -> str:
    """How many partitions are how far, as ``3 of 16 partitions done, 1 moving, 12 waiting``."""
    total = view.waiting + view.moving + view.done + view.failed + view.cancelled
    others = ((name, getattr(view, name)) for name in ("moving", "waiting", "failed", "cancelled"))
    shown = [f"{count} {name}" for name, count in others if count]
    done = f"{view.done} of {total} partition{'' if total == 1 else 's'} done"
    return ", ".join([done, *shown])


def pace(view: ReassignmentSummary) -> str:
    """Rate and estimated time, as far as they are known; nothing of a request that has ended."""
    if has_ended(view):
        return ""
    left = "" if view.eta_seconds is None else f", about {shown_seconds(view.eta_seconds)} left"
    return f"{shown_rate(view.rate)}{left}"


def line(view: ReassignmentView) -> str:
    """All of it in one line."""
    copied = overall(view)
    percent = "" if copied.percent is None else f" ({int(copied.percent)} %)"
    told = f"request {view.request_id}: {counts(view)}; {copied}{percent}"
    return ", ".join(filter(None, [told, pace(view)]))


def display() -> AbstractContextManager[Show]:
    """Bars where stderr is a terminal that can show them, else lines."""
    console = Console(stderr=True)
    return _bars(console) if console.is_terminal and not console.is_dumb_terminal else lines()


@contextmanager
def lines(
    write: Callable[[str], None] = lambda text: typer.echo(text, err=True),
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Show]:
    """A line at the beginning and the end, and every few seconds where something has changed."""
    last, told_at = "", clock() - _LINE_INTERVAL

    def show(view: ReassignmentView | None) -> None:
        nonlocal last, told_at
        ended = view is not None and has_ended(view)
        if not ended and clock() - told_at < _LINE_INTERVAL:
            return
        told = _WAITING if view is None else line(view)
        if told != last:
            write(told)
            last, told_at = told, clock()

    yield show


@contextmanager
def _bars(console: Console) -> Iterator[Show]:
    bars = Bars(most_brokers=max(1, console.height - _OTHER_LINES))
    with Live(console=console, get_renderable=lambda: bars.drawn, transient=True):
        yield bars.show


class Bars:
    """A bar of all and one of each broker that receives, as many as there is room for; those that are done give way."""

    def __init__(self, most_brokers: int) -> None:
        self._most = most_brokers
        self._header = Text(_WAITING)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[percent]}", justify="right"),
            TextColumn("{task.fields[bytes]}"),
        )
        self._progress = Progress(*columns)
        self._tasks: dict[str, TaskID] = {}

    @property
    def drawn(self) -> RenderableType:
        """What is on the terminal."""
        return Group(self._header, self._progress)

    def show(self, view: ReassignmentView | None) -> None:
        """Bring the bars up to date."""
        if view is None:
            self._header = Text(_WAITING)
            return
        brokers = by_broker(view)
        ended = [broker for broker, copied in brokers.items() if copied.done == copied.total]
        shown = [*(broker for broker in brokers if broker not in ended), *ended][: self._most]
        hidden = len(brokers) - len(shown)
        more = f"; brokers not shown: {hidden}" if hidden else ""
        self._header = Text(f"request {view.request_id}: {counts(view)}\n{pace(view)}{more}")
        self._update("all", overall(view), visible=True)
        for broker, copied in brokers.items():
            self._update(f"broker {broker}", copied, visible=broker in shown)

    def _update(self, name: str, copied: Copied, *, visible: bool) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=None, percent="", bytes="")
        self._progress.update(
            self._tasks[name],
            completed=copied.done,
            total=copied.total,
            visible=visible,
            percent="" if copied.percent is None else f"{int(copied.percent)} %",
            bytes=str(copied),
        )
