"""What was measured, and what follows from it: pure, so that a table can be made again from the JSON of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

OURS = "ordered-kafka"
"""The contender that the others are compared with."""


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some measurements."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Those of at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class Sample:
    """One run of one contender.

    ``value`` is in the measurement's unit. ``cpu``: processor seconds of this process, Spark's JVM and its Python workers;
    ``broker_cpu``: of the Kafka broker meanwhile. ``worker_mb`` and ``jvm_mb``: the most resident memory that one Python
    worker and the JVM had during the run, shared libraries included. None: not measured, or it had nothing to do.
    """

    value: float
    records: int = 0
    cpu: float | None = None
    broker_cpu: float | None = None
    worker_mb: float | None = None
    jvm_mb: float | None = None


@dataclass(frozen=True)
class Measurement:
    """The same work done by several contenders, by turns.

    ``samples``: by contender, in the order of rounds. ``better``: whether more or less of ``unit`` is better. ``goal``: for
    the ratio of ours to the first other contender, or with ``goal_of`` ``value`` for our own value. ``note``: what a reader
    of the figures must know.
    """

    part: str
    title: str
    unit: str
    better: Literal["more", "less"]
    samples: Mapping[str, Sequence[Sample]]
    goal: float | None = None
    goal_of: Literal["ratio", "value"] = "ratio"
    note: str = ""

    @property
    def others(self) -> list[str]:
        """The contenders that ours is compared with."""
        return [name for name in self.samples if name != OURS]

    def spread(self, contender: str) -> Spread | None:
        """Median, least and greatest value; None for one that did not run."""
        values = [sample.value for sample in self.samples.get(contender, ())]
        return Spread.of(values) if values else None

    def ratio(self, other: str) -> Spread | None:
        """Ours to another contender's, of runs in the same round; None if one of the two did not run."""
        pairs = zip(self.samples.get(OURS, ()), self.samples[other], strict=False)
        ratios = [ours.value / theirs.value for ours, theirs in pairs]
        return Spread.of(ratios) if ratios else None

    def reached(self) -> bool | None:
        """Whether the goal is reached by the median; None where there is no goal, or nothing to judge."""
        if self.goal is None:
            return None
        judged = self.spread(OURS) if self.goal_of == "value" else self.ratio(self.others[0])
        if judged is None:
            return None
        return judged.median >= self.goal if self.better == "more" else judged.median <= self.goal

    def cpu_per_million(self, contender: str, what: Literal["cpu", "broker_cpu"]) -> float | None:
        """Processor seconds for a million records, the median; None where they were not measured."""
        found = [
            1e6 * seconds / sample.records
            for sample in self.samples.get(contender, ())
            if (seconds := getattr(sample, what)) is not None and sample.records
        ]
        return median(found) if found else None

    def peak_mb(self, contender: str, what: Literal["worker_mb", "jvm_mb"]) -> float | None:
        """The most memory of any run, in MB (10^6 bytes)."""
        found = [
            mb for sample in self.samples.get(contender, ()) if (mb := getattr(sample, what)) is not None
        ]
        return max(found, default=None)


@dataclass(frozen=True)
class Report:
    """A whole run: where, when (UTC, ISO 8601), how large, and what was measured, in order."""

    machine: Mapping[str, str]
    began: str
    scale: Mapping[str, Any]
    measurements: Sequence[Measurement] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        """As plain data; every single run is in it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Report:
        """The inverse of :meth:`to_json`."""
        measurements = [
            Measurement(
                **{
                    **found,
                    "samples": {
                        name: [Sample(**sample) for sample in samples]
                        for name, samples in found["samples"].items()
                    },
                }
            )
            for found in value["measurements"]
        ]
        return cls(value["machine"], value["began"], value["scale"], measurements)


def alternate(
    contenders: Iterable[str], run: Callable[[str], Sample], rounds: int, warm_ups: int = 1
) -> dict[str, list[Sample]]:
    """Let each contender ``run`` ``rounds`` times, by turns, after ``warm_ups`` rounds that do not count.

    Every second round goes backwards, so that a drift of the machine meets all of them alike.
    """
    names = list(contenders)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(-warm_ups, rounds):
        for name in names if number % 2 == 0 else reversed(names):
            sample = run(name)
            if number >= 0:
                samples[name].append(sample)
    return samples
