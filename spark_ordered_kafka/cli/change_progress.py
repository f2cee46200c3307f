"""A progress bar over a partition change."""

from __future__ import annotations

from spark_ordered_kafka.cli.follow import Extent, bar, follow
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import KINDS, ChangeView, FinishedChangeView, TopicChange
from spark_ordered_kafka.controller.change.protocol import STEPS
from spark_ordered_kafka.errors import ErrorCode, RequestError


def follow_change(
    client: ControllerClient, topic: str, change_id: str
) -> tuple[TopicChange, FinishedChangeView]:
    """Show the change on stderr until it has ended; the last answer and how the change ended. Raises as ``follow`` does."""

    def has_ended(_: TopicChange | None, answer: TopicChange) -> bool:
        return answer.change is None or answer.change.id != change_id

    answer = follow(
        lambda: client.change(topic),
        bar(lambda answer: _extent(topic, answer)),
        has_ended,
        unfinished=f"change {change_id} of topic {topic!r} is still in progress",
    )
    return answer, _ended(answer, topic, change_id)


def _ended(answer: TopicChange, topic: str, change_id: str) -> FinishedChangeView:
    last = answer.last_change
    if last is None or last.id != change_id:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"change {change_id} of topic {topic!r} ended and another came after it",
        )
    return last


def _extent(topic: str, answer: TopicChange) -> Extent:
    change = answer.change
    if change is None:
        return Extent(topic, len(STEPS), len(STEPS))
    fencing = change.step == "fencing"
    fences = f" {change.fenced}/{change.total_fences}" if fencing else ""
    fenced = change.fenced / change.total_fences if fencing and change.total_fences else 0.0
    text = f"{topic}: {shown(change)}, {change.step}{fences}"
    # That of a later version may be anywhere.
    done = STEPS.index(change.step) if change.step in STEPS else 0
    return Extent(text, done + fenced, len(STEPS))


def shown(change: ChangeView | FinishedChangeView) -> str:
    """What a change changes, as ``2 -> 4``."""
    if change.kind in ("order", "unorder"):
        return f"ordered delivery {'on' if change.kind == 'order' else 'off'}"
    counts = f"{change.source} -> {change.target}"
    return counts if change.kind in KINDS else f"{change.kind} {counts}"
