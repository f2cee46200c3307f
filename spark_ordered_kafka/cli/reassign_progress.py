"""Live progress of a reassignment: bars on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from spark_ordered_kafka.cli.follow import WAITING, Show, follow, lines
from spark_ordered_kafka.cli.units import shown_bytes, shown_rate, shown_seconds
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReassignmentSummary, ReassignmentView

_OTHER_LINES = 4
"""Lines of a terminal that bars of brokers leave free."""
_BAR_WIDTH = 30

RequestId = int | Literal["latest"]


@dataclass(frozen=True)
class Copied:
    """Bytes copied, and bytes in all; None: the size of some replica is not known."""

    done: int
    total: int | None

    @property
    def percent(self) -> float | None:
        """0 to 100."""
        return None if self.total is None else 100.0 * self.done / max(1, self.total)

    def __str__(self) -> str:
        total = "?" if self.total is None else shown_bytes(self.total)
        return f"{shown_bytes(self.done)} of {total}"


def follow_request(
    client: ControllerClient,
    request_id: RequestId,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ReassignmentView:
    """Show the request until it has ended; the request as it is then.

    Raises as ``follow`` does, but waits for as long as a controller answers: a broker may be away for hours.
    """

    def ask() -> ReassignmentView:
        nonlocal request_id
        view = client.reassignment(request_id)
        request_id = view.request_id  # stay with the request that is the latest now
        return view

    return follow(
        ask,
        _display(),
        lambda _, view: view.complete,
        unfinished=f"request {request_id} is still in progress",
        progressed=lambda before, now: True,
        clock=clock,
        sleep=sleep,
    )


def overall(view: ReassignmentSummary) -> Copied:
    """Of all replicas."""
    return Copied(view.numerator, None if view.denominator < 0 else view.denominator)


def by_broker(view: ReassignmentView) -> dict[int, Copied]:
    """Of each broker that receives, in the order of their ids."""
    found: dict[int, Copied] = {}
    for row in view.replicas:
        so_far = found.get(row.broker, Copied(0, 0))
        known = so_far.total is not None and row.denominator >= 0
        total = so_far.total + row.denominator if known and so_far.total is not None else None
        found[row.broker] = Copied(so_far.done + row.numerator, total)
    return dict(sorted(found.items()))


def counts(view: ReassignmentSummary) -> str:
    """How many partitions are how far, as ``3 of 16 partitions done, 1 moving, 12 waiting``."""
    total = view.waiting + view.moving + view.done + view.failed + view.cancelled
    others = ((name, getattr(view, name)) for name in ("moving", "waiting", "failed", "cancelled"))
    shown = [f"{count} {name}" for name, count in others if count]
    done = f"{view.done} of {total} partition{'' if total == 1 else 's'} done"
    return ", ".join([done, *shown])


def rate_and_eta(view: ReassignmentSummary) -> str:
    """Rate and estimated time left, as far as known; empty for a request that has ended."""
    if view.complete:
        return ""
    left = "" if view.eta_seconds is None else f", about {shown_seconds(view.eta_seconds)} left"
    return f"{shown_rate(view.rate)}{left}"


def line(view: ReassignmentView) -> str:
    """All of it in one line."""
    copied = overall(view)
    percent = "" if copied.percent is None else f" ({int(copied.percent)} %)"
    summary = f"request {view.request_id}: {counts(view)}; {copied}{percent}"
    return ", ".join(filter(None, [summary, rate_and_eta(view)]))


def _display() -> AbstractContextManager[Show[ReassignmentView]]:
    """Bars where stderr is a terminal that can show them, else lines."""
    console = Console(stderr=True)
    return _bars(console) if console.is_terminal and not console.is_dumb_terminal else lines(line)


@contextmanager
def _bars(console: Console) -> Iterator[Show[ReassignmentView]]:
    bars = Bars(most_brokers=max(1, console.height - _OTHER_LINES))
    with Live(console=console, get_renderable=lambda: bars.renderable, transient=True):
        yield bars.show


class Bars:
    """A bar for all and one for each receiving broker, as many as fit; completed ones make room."""

    def __init__(self, most_brokers: int) -> None:
        self._most = most_brokers
        self._header = Text(WAITING)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[percent]}", justify="right"),
            TextColumn("{task.fields[bytes]}"),
        )
        self._progress = Progress(*columns)
        self._tasks: dict[str, TaskID] = {}

    @property
    def renderable(self) -> RenderableType:
        """What is on the terminal."""
        return Group(self._header, self._progress)

    def show(self, view: ReassignmentView | None) -> None:
        """Update the bars."""
        if view is None:
            self._header = Text(WAITING)
            return
        brokers = by_broker(view)
        ended = [broker for broker, copied in brokers.items() if copied.done == copied.total]
        shown = [*(broker for broker in brokers if broker not in ended), *ended][: self._most]
        hidden = len(brokers) - len(shown)
        more = f"; brokers not shown: {hidden}" if hidden else ""
        self._header = Text(f"request {view.request_id}: {counts(view)}\n{rate_and_eta(view)}{more}")
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
