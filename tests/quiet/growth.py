"""What has grown in a quiet run. Pure: it gets the history."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.nemesis.journal import Event
from tests.nemesis.judge import Bound

WARM_UP = 0.2
"""The part of a run that is not judged: caches fill, Java compiles, heaps reach their size."""
_MIB = 2**20
BOUNDS = {
    "rss": Bound(1.1, 8 * _MIB),
    "processes": Bound(1.0, 1),
    "threads": Bound(1.0, 4),
    "files": Bound(1.0, 8),
    "connections": Bound(1.0, 6),
}
"""How much more there may be late than early: what one kept client takes, which comes and goes with changes."""
JAVA_RSS = Bound(1.25, 64 * _MIB)
"""Of Java, whose heap grows as far as it may."""


class Medians(NamedTuple):
    """A figure early and late in a run, its warm-up left out."""

    first: float
    last: float


def medians(events: Sequence[Event]) -> Iterator[tuple[str, str, Medians]]:
    """Of each process, by the order of names: the process, the figure, its medians.

    What a process has follows the partition count, so like is compared with like: of each count, the first third of its
    samples and the last third. What is given is the mean over the counts.
    """
    by_process: dict[str, dict[int, list[Event]]] = {}
    for count, sample in _judged(events):
        by_process.setdefault(sample["of"], {}).setdefault(count, []).append(sample)
    for name, by_count in sorted(by_process.items()):
        for what in BOUNDS:
            pairs = [
                _thirds([sample[what] for sample in samples if what in sample])
                for samples in by_count.values()
            ]
            known = [pair for pair in pairs if pair is not None]
            if known:
                yield name, what, Medians(*map(statistics.fmean, zip(*known, strict=True)))


def _thirds(values: Sequence[float]) -> Medians | None:
    third = len(values) // 3
    return Medians(statistics.median(values[:third]), statistics.median(values[-third:])) if third else None


def check_growth(events: Sequence[Event], bounds: Mapping[str, Bound] = BOUNDS) -> list[str]:
    """Violations: figures that have grown beyond their bounds, or a run too short to say."""
    found, judged = [], 0
    for name, what, (first, last) in medians(events):
        judged += 1
        bound = JAVA_RSS if what == "rss" and _is_java(name) else bounds[what]
        if last > first * bound.factor + bound.more:
            found.append(f"{what} of {name} has grown from {first:.0f} to {last:.0f}")
    return found if judged else ["nothing was measured"]


def figures(events: Sequence[Event]) -> str:
    """Figures of a run, with a table in Markdown."""
    at = {event["action"]: event["at"] for event in events if event["action"] in {"begin", "end"}}
    changes = sum(event["action"] == "changed" for event in events)
    records = sum(event["records"] for event in events if event["action"] == "read")
    by_name: dict[str, dict[str, Medians]] = {}
    for name, what, pair in medians(events):
        by_name.setdefault(name, {})[what] = pair
    rows = [
        f"| {name} | "
        + " | ".join(_cell(what, own[what]) if what in own else "" for what in BOUNDS)
        + f" | {_share(events, name):.1%} |"
        for name, own in by_name.items()
    ]
    return "\n".join(
        [
            f"{(at['end'] - at['begin']) / 60:.0f} minutes, {records} records, {changes} partition changes of each topic",
            f"| process | {' | '.join(what if what != 'rss' else 'memory, MiB' for what in BOUNDS)} | of a core |",
            "|---|" + "--:|" * (len(BOUNDS) + 1),
            *rows,
        ]
    )


def _cell(what: str, pair: Medians) -> str:
    unit = _MIB if what == "rss" else 1
    return f"{pair.first / unit:.0f} → {pair.last / unit:.0f}"


def _share(events: Iterable[Event], name: str) -> float:
    """Processor time by time, over the samples that are judged; of children that have ended, none."""
    own = [event for _, event in _judged(events) if event["of"] == name]
    seconds = own[-1]["at"] - own[0]["at"]
    return (own[-1]["cpu"] - own[0]["cpu"]) / seconds if seconds else 0.0


def _judged(events: Iterable[Event]) -> list[tuple[int, Event]]:
    """The samples after the warm-up, in their order, each with the partition count of its time; 0 before the first change."""
    samples, count = [], 0
    for event in events:
        if event["action"] == "changed":
            count = event["partitions"]
        elif event["action"] == "usage":
            samples.append((count, event))
    if not samples:
        return []
    begin, end = samples[0][1]["at"], samples[-1][1]["at"]
    return [one for one in samples if one[1]["at"] >= begin + WARM_UP * (end - begin)]


def _is_java(name: str) -> bool:
    return name.rpartition("/")[2] == "java" or name.partition("-")[0] in {"broker", "zookeeper", "kraft"}
