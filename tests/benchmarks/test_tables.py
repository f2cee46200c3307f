"""The tables of a run: what they say, and that they fit."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from benchmarks import tables
from benchmarks.figures import OURS, Measurement, Report, Sample
from benchmarks.scale import TINY

READ = Measurement(
    "read-100",
    "batch read, 100 B, 16 partitions, of a topic with a long title",
    "records/s",
    "more",
    {
        OURS: [Sample(1_234_567.0, 1_000_000, 2.5, 0.5, 150.0, 900.0), Sample(1_000_000.0)],
        "Spark's kafka": [Sample(400_000.0), Sample(500_000.0)],
        "third": [Sample(10_000.0)],
    },
    2.0,
    note="A remark that is longer than a line of the terminal, so that it has to go on in the next one.",
)
ALONE = Measurement("start", "--help", "s", "less", {OURS: [Sample(0.3), Sample(0.2)]}, 0.2, "value")
FLOOR = Measurement("floor", "nothing", "ms", "less", {"nothing": [Sample(235.0)]})
REPORT = Report({"processor": "two cores"}, "2026-01-01T00:00:00Z", asdict(TINY), [READ, ALONE, FLOOR])


def test_text_fits_into_80_columns() -> None:
    text = tables.text(REPORT)
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert "1,117,000/s   450,000/s   2.54 2.00..3.09       ≥2" in text
    assert next(line for line in lines if "beside third" in line).split() == [
        "beside", "third", "10,000/s", "123", "123..123",
    ]  # fmt: skip
    assert "0.25 s" in next(line for line in lines if line.startswith("--help"))
    assert "≤0.2 s!" in text
    assert "235 ms" in next(line for line in lines if line.startswith("nothing"))


def test_markdown_has_a_row_for_each_comparison() -> None:
    rows = [line for line in tables.markdown(REPORT).splitlines() if line.startswith("|")]
    title = READ.title
    assert f"| {title} | 1,117,000/s | `Spark's kafka` | 450,000/s | 2.54 | 2.00..3.09 | ≥2 |" in rows
    assert "| --help | 0.25 s |  |  |  |  | ≤0.2 s (missed) |" in rows
    assert "| nothing | - | `nothing` | 235 ms |  |  |  |" in rows
    assert f"| {title} | {OURS} | 2.50 | 0.50 | 150 | 900 |" in rows
    assert "two cores" in tables.markdown(REPORT)


def test_a_page_has_its_tables_replaced() -> None:
    page = f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n"
    made = tables.published(page, REPORT)
    assert made == f"before\n{tables.BEGIN}\n{tables.markdown(REPORT)}\n{tables.END}\nafter\n"
    assert tables.published(made, REPORT) == made
    with pytest.raises(ValueError, match="does not have the lines"):
        tables.published(page.replace(tables.END, ""), REPORT)


def test_a_goal_without_figures_is_shown_without_a_judgement() -> None:
    assert tables.goal(replace(READ, samples={OURS: [], "other": []})) == "≥2"


@pytest.mark.parametrize(
    ("amount", "unit", "shown"),
    [
        (346_789.0, "records/s", "347,000/s"),
        (34_678.0, "records/s", "34,700/s"),
        (3_467.8, "records/s", "3,468/s"),
        (617.6, "ms", "618 ms"),
        (20.04, "ms", "20.0 ms"),
        (0.254, "s", "0.25 s"),
    ],
)
def test_values_have_three_or_four_digits(amount: float, unit: str, shown: str) -> None:
    assert tables.value(amount, unit) == shown
