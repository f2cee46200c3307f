"""The site is built without a warning: each link, heading and name that it documents is there. Nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A link may lead elsewhere. What a browser loads by itself is src, the href of <link>, url() and @import.
LOADED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc="?(?:https?:)?//|<link\b(?![^>]*rel="?canonical)[^>]*\bhref="?(?:https?:)?//"""
    r"""|url\(["']?(?:https?:)?//|@import""",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make site`` makes, of copies."""
    directory = tmp_path_factory.mktemp("site")
    for name in (
        "mkdocs.yml",
        "mkdocs_roles.py",
        "Makefile",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE",
    ):
        shutil.copy(ROOT / name, directory)
    for name in ("docs", "conf", "jobs", "deploy", "spark_ordered_kafka"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    # The environment is there.
    make = [
        "make",
        "site",
        f"BIN={Path(sys.executable).parent}",
        "--assume-old=venv",
        "--assume-old=prerequisites",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    built = subprocess.run(
        make, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return directory / "build" / "site"


@pytest.mark.long
def test_every_page_is_there(site: Path) -> None:
    sources = [
        ROOT / "CONTRIBUTING.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"),
    ]
    for source in sources:
        page = site / source.relative_to(ROOT).with_suffix(".html")
        title = source.read_text().splitlines()[0].removeprefix("# ").replace("`", "")
        assert title in re.sub(r"<[^>]+>", "", page.read_text()), page
    assert "Grow and shrink" in (site / "index.html").read_text()


@pytest.mark.long
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = [
        (str(file.relative_to(site)), file.read_text()[max(0, match.start() - 40) : match.end() + 60])
        for file in site.rglob("*")
        if file.suffix in {".html", ".css", ".svg"}
        for match in LOADED.finditer(file.read_text())
    ]
    assert found == []


@pytest.mark.long
def test_the_public_names_are_documented(site: Path) -> None:
    import spark_ordered_kafka

    page = (site / "docs" / "python-api.html").read_text()
    names = set(spark_ordered_kafka.__all__) - {"__version__"}
    assert [
        name for name in sorted(names) if not re.search(rf'id="spark_ordered_kafka\.(errors\.)?{name}"', page)
    ] == []


@pytest.mark.long
def test_docstrings_are_shown_without_roles_of_sphinx(site: Path) -> None:
    assert (
        re.findall(
            r":(?:mod|meth|class|func|attr|exc|data|obj):", (site / "docs" / "python-api.html").read_text()
        )
        == []
    )
