"""Figures of a run, for people and for docs/reliability.md."""

from __future__ import annotations

from collections import Counter

from tests.nemesis.journal import Event
from tests.nemesis.plan import COPIED, QUERIED, SAVED, UNSAFE


def summary(events: list[Event], violations: list[str]) -> str:
    """Figures of a run, for docs/reliability.md."""
    times = {event["action"]: event["at"] for event in events if event["action"] in {"begin", "end"}}
    begin = next((event for event in events if event["action"] == "begin"), {})
    given = sum(
        last - first + 1
        for event in events
        if event["action"] == "delivered"
        for _, first, last in event["runs"]
    )
    faults = Counter(event["kind"] for event in events if event["action"] == "fault")
    operations = [event for event in events if event["action"] == "operate"]
    asked = Counter(event["what"] for event in operations)
    taken = Counter(event["what"] for event in operations if not event["errors"])
    refused = Counter(error for event in operations for error in event["errors"])
    read = next((event for event in events if event["action"] == "read"), {})
    layouts = {(one["topic"], one["topic_id"], one["epoch"]) for one in events if one["action"] == "layout"}
    ended = Counter(event["node"].rpartition("-")[0] for event in events if event["action"] == "ended")
    lines = [
        f"Kafka {begin.get('kafka')}{', secured' if begin.get('secure') else ''}"
        f"{'; the query writes as ' + begin['way'] if begin.get('query') else ''}",
        f"{(times.get('end', 0) - times.get('begin', 0)) / 60:.1f} minutes, {sum(faults.values())} faults: {_listed(faults)}",
        f"records: {', '.join(f'{read[name]} {name}' for name in ('records', COPIED, QUERIED, UNSAFE, SAVED) if name in read)}; {given} given to readers",
        f"operator: {sum(asked.values())} requests, {sum(taken.values())} taken: {_listed(taken)}",
        f"refused: {_listed(refused)}",
        f"layouts: {len(layouts)}; ended by themselves: {_listed(ended) or 'none'}",
        f"{len(violations)} violations",
    ]
    return "\n".join([*lines, *(f"  {violation}" for violation in violations)])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())
