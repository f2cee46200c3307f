"""The decisions have unique numbers and dates, the index lists them all, and every number that is cited exists."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
AREAS = {
    path.name: path.read_text()
    for path in (ROOT / "docs" / "decisions").glob("*.md")
    if path.name != "README.md"
}
INDEX = (ROOT / "docs" / "decisions" / "README.md").read_text()
ENTRIES = [
    (number, title, file, day)
    for file, text in AREAS.items()
    for number, title, day in re.findall(r"^## (D-\d+) (.+)\n(.*)$", text, re.MULTILINE)
]
NUMBERS = Counter(number for number, *_ in ENTRIES)


def test_every_entry_has_a_number_of_its_own_and_a_date() -> None:
    assert len(ENTRIES) == sum(len(re.findall(r"^## ", text, re.MULTILINE)) for text in AREAS.values()) > 200
    assert [number for number, count in NUMBERS.items() if count > 1 or len(number) != len("D-001")] == []
    for number, _, _, day in ENTRIES:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", day), f"{number}: {day}"
        date.fromisoformat(day)


def test_the_index_lists_every_entry_by_number_title_and_file() -> None:
    listed = re.findall(r"^\| (D-\d+) \| (.+) \| \[(.+)\]\(\3\) \|$", INDEX, re.MULTILINE)
    assert listed == sorted((number, title, file) for number, title, file, _ in ENTRIES)
    assert [file for file in AREAS if f"]({file}) | " not in INDEX] == []


def test_every_number_that_is_cited_exists() -> None:
    folders = ("spark_ordered_kafka", "jobs", "benchmarks", "tests", "docs")
    files = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    texts = {path: path.read_text() for path in files if path.suffix in (".py", ".c", ".h", ".md")}
    cited = {(str(path), number) for path, text in texts.items() for number in re.findall(r"\bD-\d+\b", text)}
    assert len(texts) > 500
    assert sorted(pair for pair in cited if pair[1] not in NUMBERS) == []
