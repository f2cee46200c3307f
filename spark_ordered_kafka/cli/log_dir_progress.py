"""Where replicas are that are to be in certain log directories, and how far those are that go there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from spark_ordered_kafka.cli.units import shown_bytes
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReplicaLogDir, ReplicaLogDirView
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

_POLL = 0.25
_POLL_SHARE = 4.0
"""An answer that took long is asked for less often: after so many times the time that it took."""
_SILENCE = 600.0
"""Seconds without any change after which nobody waits any longer."""
_LINE_INTERVAL = 5.0
_TOPICS_LENGTH = 30_000
"""Characters of topics' names in one request: a query has room for twice as many."""

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
_AWAY = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)

Status = Literal["completed", "in_progress", "differs", "unknown"]


@dataclass(frozen=True)
class Placement:
    """A replica, where it is to be, and where it is."""

    wanted: ReplicaLogDir
    view: ReplicaLogDirView

    @property
    def status(self) -> Status:
        """``in_progress``: there is a temporary replica in the right directory; ``unknown``: nobody told."""
        current, temporary = self.view.current_replica_log_dir, self.view.temporary_replica_log_dir
        if temporary is not None:
            return "in_progress" if temporary == self.wanted.log_dir else "differs"
        if current is None:
            return "unknown"
        return "completed" if current == self.wanted.log_dir else "differs"

    @property
    def told(self) -> str:
        """The same in words."""
        view, status = self.view, self.status
        if status == "completed":
            return "is there"
        if status == "unknown":
            return f"not known: {view.error}: {view.error_message}"
        if view.temporary_replica_log_dir is None:
            return f"is in {view.current_replica_log_dir}"
        to = "" if status == "in_progress" else f" to {view.temporary_replica_log_dir}"
        return (
            f"is being moved{to} from {view.current_replica_log_dir}: "
            f"{shown_bytes(view.temporary_replica_size or 0)} of {shown_bytes(view.current_replica_size or 0)}, "
            f"lag {view.temporary_replica_offset_lag}"
        )

    @property
    def copied(self) -> tuple[int, int]:
        """Bytes that are there, and bytes that there will be."""
        size = self.view.current_replica_size or 0
        if self.status == "in_progress":
            return min(self.view.temporary_replica_size or 0, size), size
        return (size, size) if self.status == "completed" else (0, size)


def placements(client: ControllerClient, rows: Sequence[ReplicaLogDir]) -> list[Placement]:
    """Where the replicas are. Of what does not exist, the view has the error."""
    found: dict[tuple[str, int, int], ReplicaLogDirView] = {}
    refused: dict[str, RequestError] = {}
    partitions = [row.partition for row in rows] if len(rows) == 1 else []
    for topics in _chunks(list(dict.fromkeys(row.topic for row in rows))):
        try:
            views = client.replica_log_dirs(topics=topics, partitions=partitions).replicas
        except RequestError as error:
            views = _one_by_one(client, topics, error, refused)
        found |= {(view.topic, view.partition, view.broker): view for view in views}
    return [
        Placement(
            row, found.get((row.topic, row.partition, row.broker)) or _absent(row, refused.get(row.topic))
        )
        for row in rows
    ]


def follow(
    client: ControllerClient,
    rows: Sequence[ReplicaLogDir],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Placement]:
    """Show on stderr how far the replicas are until none of them is being moved any more; where they are then.

    A controller, or a broker, that is away meanwhile is waited for; a topic that is deleted and a log directory that fails
    end it. Raises UnavailableError when nothing has changed for 10
    minutes; the brokers go on.
    """
    before: list[Placement] = []
    changed = clock()
    with _display() as show:
        while True:
            asked = clock()
            now = _answer(client, rows)
            show(now)
            if now is not None:
                if before and all(map(_has_ended, before, now)):
                    return now
                changed = changed if now == before else clock()
                before = now
            if clock() - changed > _SILENCE:
                raise UnavailableError(
                    f"nothing has changed for {_SILENCE:g} s; the brokers go on with what they have begun"
                )
            # The brokers have no call that tells progress by itself.
            sleep(max(_POLL, _POLL_SHARE * (clock() - asked)))


def _has_ended(before: Placement, now: Placement) -> bool:
    if now.status in ("completed", "in_progress"):
        return now.status == "completed"
    if now.status == "unknown" and now.view.error_code in _AWAY:
        return False
    # A replica that takes its place just now may be shown neither here nor there, for once.
    return now.status == before.status


def _answer(client: ControllerClient, rows: Sequence[ReplicaLogDir]) -> list[Placement] | None:
    try:
        return placements(client, rows)
    except OrderedKafkaError as error:
        if not error.retriable:
            raise
        return None


def _chunks(topics: Sequence[str]) -> Iterator[list[str]]:
    """The topics in pieces that a query has room for."""
    some, length = list[str](), 0
    for topic in topics:
        if some and length + len(topic) > _TOPICS_LENGTH:
            yield some
            some, length = [], 0
        some.append(topic)
        length += len(topic) + 1
    yield some


def _one_by_one(
    client: ControllerClient, topics: Sequence[str], error: RequestError, refused: dict[str, RequestError]
) -> list[ReplicaLogDirView]:
    """Ask for each topic by itself after a refusal of several; ``refused`` takes the errors of those that do not exist."""
    if error.code not in _UNKNOWN:
        raise error
    if len(topics) == 1:
        refused[topics[0]] = error
        return []
    views: list[ReplicaLogDirView] = []
    for topic in topics:
        try:
            views += client.replica_log_dirs(topics=[topic]).replicas
        except RequestError as one:
            _one_by_one(client, [topic], one, refused)
    return views


def _absent(row: ReplicaLogDir, error: RequestError | None) -> ReplicaLogDirView:
    if error is None:
        error = RequestError(
            ErrorCode.REPLICA_NOT_AVAILABLE,
            f"partition {row.topic}-{row.partition} has no replica on broker {row.broker}",
        )
    return ReplicaLogDirView(
        topic=row.topic,
        partition=row.partition,
        broker=row.broker,
        error_code=error.code,
        error=error.name,
        error_message=error.message,
        current_replica_log_dir=None,
        temporary_replica_log_dir=None,
        temporary_replica_offset_lag=None,
    )


@contextmanager
def _display() -> Iterator[Callable[[list[Placement] | None], None]]:
    """A bar over the bytes on a terminal, elsewhere a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines().show
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("moving", total=None)

        def show(found: list[Placement] | None) -> None:
            done, total = _copied(found or [])
            description = _summary(found)
            if found is None:
                progress.update(bar, description=description)
            else:
                progress.update(bar, description=description, completed=done, total=max(1, total))

        yield show


class _Lines:
    def __init__(self) -> None:
        self._next = 0.0

    def show(self, found: list[Placement] | None) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LINE_INTERVAL
        done, total = _copied(found or [])
        typer.echo(f"{_summary(found)}: {shown_bytes(done)} of {shown_bytes(total)}", err=True)


def _copied(found: Sequence[Placement]) -> tuple[int, int]:
    return sum(one.copied[0] for one in found), sum(one.copied[1] for one in found)


def _summary(found: Sequence[Placement] | None) -> str:
    if found is None:
        return "waiting for a controller"
    there = sum(one.status == "completed" for one in found)
    lag = sum(one.view.temporary_replica_offset_lag or 0 for one in found if one.status == "in_progress")
    return f"{there} of {len(found)} replicas in their log directories, lag {lag}"
