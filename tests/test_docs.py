"""The pages name modules, routes and pages that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.reassign.throttle.policy import ThrottlesRecord
from spark_ordered_kafka.controller.state.autoscale import AutoscaleRecord
from spark_ordered_kafka.controller.state.broker_limits import BrokerRecord
from spark_ordered_kafka.controller.state.healing import HealingRecord
from spark_ordered_kafka.controller.state.reassignment_records import MovesRecord, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import PlanRecord
from spark_ordered_kafka.controller.state.records import (
    CreationRecord,
    DeletionRecord,
    LayoutRecord,
    PartitionRecord,
    ReleaseRecord,
    TopicRecord,
)
from spark_ordered_kafka.controller.state.reviews import ReviewRecord
from spark_ordered_kafka.controller.zk.records import CandidateRecord, LeaderRecord, Record, dump, parse

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_ordered_kafka"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ROUTE = re.compile(r'@app\.(get|post|put|patch|delete)\(\s*"([^"]+)"')
CITED_ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[^`?\s]+)")
CITED_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)(?:\.py|/)?`")
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
RECORDS: dict[str, type[Record]] = {
    "/controller": LeaderRecord,
    "/election/<lock>": CandidateRecord,
    "/topics/<t>": TopicRecord,
    "/topics/<t>/layouts/<epoch>": LayoutRecord,
    "/topics/<t>/partitions/<p>": PartitionRecord,
    "/admin/create_topics/<t>": CreationRecord,
    "/admin/delete_topics/<t>": DeletionRecord,
    "/admin/release_topics/<t>": ReleaseRecord,
    "/admin/reassign_partitions": PlanRecord,
    "/admin/reassign_partitions_status/<id>": RequestRecord,
    "/admin/reassign_partitions_status/<id>/moves": MovesRecord,
    "/admin/reassign_partitions_throttles": ThrottlesRecord,
    "/brokers/ids/<id>": BrokerRecord,
    "/reviews/<id>": ReviewRecord,
    "/autoscale/<t>": AutoscaleRecord,
    "/healing": HealingRecord,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_links_to_pages_and_headings_that_exist(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target.read_text()), f"{page.name} links to {link}"


@pytest.mark.parametrize("name", ["architecture", "proposals"])
def test_a_page_names_modules_that_exist(name: str) -> None:
    cited = set(CITED_MODULE.findall((ROOT / "docs" / f"{name}.md").read_text()))
    assert len(cited) > 20
    assert [path for path in sorted(cited) if not is_module(path)] == []


def test_the_proposals_name_routes_that_exist() -> None:
    routes = {
        (method.upper(), shape(path))
        for file in (PACKAGE / "controller" / "api" / "routes").glob("*.py")
        for method, path in ROUTE.findall(file.read_text())
    }
    cited = set(CITED_ROUTE.findall((ROOT / "docs" / "proposals.md").read_text()))
    assert len(cited) > 15
    assert [(m, path) for m, path in sorted(cited) if (m, shape(path)) not in routes] == []


def test_the_znodes_are_shown_as_they_are_written() -> None:
    block = (ROOT / "docs" / "architecture.md").read_text().split("```text\n")[1].split("```")[0]
    shown = dict(re.findall(r"^(/\S+)\s+(\{.*?\})$(?=\n/|\n\Z)", block, re.MULTILINE | re.DOTALL))
    assert shown.keys() == RECORDS.keys()
    for path, text in shown.items():
        written = dump(parse(RECORDS[path], text.encode(), path))
        assert json.loads(text) == json.loads(written), path


def anchors(text: str) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_module(path: str) -> bool:
    """Whether it is a module or folder, of the package or of the whole project."""
    return any((base / f"{path}{end}").exists() for base in (PACKAGE, ROOT) for end in ("", ".py"))


def shape(path: str) -> str:
    """A route without the names of its parameters."""
    return re.sub(r"\{[^}]+\}", "{}", path)
