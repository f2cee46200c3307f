"""Figures as text: for a terminal of 80 columns, and as the tables of docs/performance.md. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.figures import OURS, Measurement, Report, Spread

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
"""Between these lines of a page stand the tables of a run."""

_TITLE = 29
_FORMAT = f"{{:<{_TITLE}}} {{:>11}} {{:>11}} {{:>6}} {{:>10}} {{:>8}}"
_COSTS = f"{{:<{_TITLE}}} {{:<15}} {{:>6}} {{:>7}} {{:>7}} {{:>6}}"


def value(amount: float, unit: str) -> str:
    """A value with its unit, in three or four digits: ``347,000/s``, ``12.3 ms``."""
    if unit == "records/s":
        step = 1_000 if amount >= 100_000 else 100 if amount >= 10_000 else 1
        return f"{round(amount / step) * step:,}/s"
    digits = 0 if amount >= 100 else 1 if amount >= 10 else 2
    return f"{amount:,.{digits}f} {unit}"


def goal(measurement: Measurement) -> str:
    """The goal, with a mark when it is missed: ``≥2``, ``≤20 ms!``."""
    if measurement.goal is None:
        return ""
    sign = "≥" if measurement.better == "more" else "≤"
    unit = f" {measurement.unit}" if measurement.goal_of == "value" else ""
    mark = "!" if measurement.reached() is False else ""
    return f"{sign}{measurement.goal:g}{unit}{mark}"


def text(report: Report) -> str:
    """Two tables of at most 80 columns: how fast, and what it takes of processors and memory."""
    lines = [_FORMAT.format("", "OURS", "OTHER", "RATIO", "FROM..TO", "GOAL")]
    for measurement in report.measurements:
        lines += _lines(measurement)
    costs = [row for measurement in report.measurements for row in _costs(measurement)]
    if costs:
        lines += ["", "Processor seconds for a million records, and peak memory in MB:", ""]
        lines.append(_COSTS.format("", "WHO", "CPU", "BROKER", "WORKER", "JVM"))
        lines += [_COSTS.format(title[:_TITLE], *cells) for title, *cells in costs]
    return "\n".join(line.rstrip() for line in lines)


def markdown(report: Report) -> str:
    """The tables for docs/performance.md, with the machine and the size of the run above them."""
    machine = ", ".join(f"{name} {found}" for name, found in report.machine.items())
    scale = ", ".join(f"{name.replace('_', ' ')} {found}" for name, found in report.scale.items())
    lines = [*textwrap.wrap(f"Measured {report.began} on: {machine}.", 140)]
    lines += ["", *textwrap.wrap(f"Size: {scale}.", 140), ""]
    lines += ["| work | ours | other | | ratio | from..to | goal |", "|---|--:|---|--:|--:|--:|--:|"]
    for measurement in report.measurements:
        ours = _shown(measurement, OURS)
        for number, other in enumerate(measurement.others or [""]):
            ratio = measurement.ratio(other) if other else None
            cells = [
                measurement.title,
                ours,
                f"`{other}`" if other else "",
                _shown(measurement, other) if other else "",
                _times(ratio.median) if ratio else "",
                _range(ratio),
                goal(measurement).replace("!", " (missed)") if number == 0 else "",
            ]
            lines.append(_row(cells))
        if measurement.note:
            lines.append(_row([f"  *{measurement.note}*", *[""] * 6]))
    costs = [row for measurement in report.measurements for row in _costs(measurement)]
    if costs:
        lines += ["", "| work | who | processor s/million | broker s/million | worker MB | JVM MB |"]
        lines += ["|---|---|--:|--:|--:|--:|", *map(_row, costs)]
    return "\n".join(lines)


def published(page: str, report: Report) -> str:
    """A page with the tables between its two marks, instead of those that stand there.

    Raises ValueError where the page does not have both marks, in this order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page does not have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(report)}\n{END}{after}"


def _lines(measurement: Measurement) -> Iterator[str]:
    """A line per other contender, with the title before the first one; a note is indented below."""
    title = textwrap.wrap(measurement.title, _TITLE)
    ours = _shown(measurement, OURS)
    if not measurement.others:
        yield _FORMAT.format(title[0], ours, "", "", _own_range(measurement), goal(measurement))
        yield from title[1:]
    else:
        first, *rest = measurement.others
        yield from title[:-1]
        yield _against(measurement, first, title[-1], ours, goal(measurement))
        if rest:
            for other in rest:
                yield _against(measurement, other, f"  beside {other}", "", "")
    yield from textwrap.wrap(measurement.note, 78, initial_indent="  ", subsequent_indent="  ")


def _against(measurement: Measurement, other: str, title: str, ours: str, wanted: str) -> str:
    ratio = measurement.ratio(other)
    median = _times(ratio.median) if ratio else ""
    return _FORMAT.format(title, ours, _shown(measurement, other), median, _range(ratio), wanted)


def _shown(measurement: Measurement, contender: str) -> str:
    spread = measurement.spread(contender)
    return "-" if spread is None else value(spread.median, measurement.unit)


def _range(ratio: Spread | None) -> str:
    return "" if ratio is None else f"{_times(ratio.min)}..{_times(ratio.max)}"


def _times(ratio: float) -> str:
    return f"{ratio:.{0 if ratio >= 100 else 1 if ratio >= 10 else 2}f}"


def _own_range(measurement: Measurement) -> str:
    spread = measurement.spread(OURS)
    return "" if spread is None else f"{spread.min:.3g}..{spread.max:.3g}"


def _costs(measurement: Measurement) -> Iterator[list[str]]:
    """Title, contender, processor seconds, the broker's, and memory: of each contender of which any is known."""
    for contender in measurement.samples:
        amounts = (
            (measurement.cpu_per_million(contender, "cpu"), ".2f"),
            (measurement.cpu_per_million(contender, "broker_cpu"), ".2f"),
            (measurement.peak_mb(contender, "worker_mb"), ".0f"),
            (measurement.peak_mb(contender, "jvm_mb"), ".0f"),
        )
        if any(amount is not None for amount, _ in amounts):
            shown = ["" if amount is None else f"{amount:{digits}}" for amount, digits in amounts]
            yield [measurement.title, contender, *shown]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
