"""What is shipped, and what an installation without a C compiler comes to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = "spark_ordered_kafka/native/src"
EXAMPLES = "spark_ordered_kafka/controller/api/examples.json"
LOOK = """
import logging
logging.basicConfig(format="%(message)s")
from spark_ordered_kafka.native.loading import kernel
print("kernel" if kernel() else "python")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build reads, without what one has left in place."""
    copy = tmp_path_factory.mktemp("tree")
    for name in (
        "setup.py",
        "pyproject.toml",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "pyspark_ordered_kafka.py",
    ):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(
        ROOT / "spark_ordered_kafka",
        copy / "spark_ordered_kafka",
        ignore=shutil.ignore_patterns("*.so", "__pycache__"),
    )
    # What is not installed.
    shutil.copytree(ROOT / "benchmarks", copy / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def setup(tree: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "setup.py", *words],
        cwd=tree,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_source_distribution_can_be_built(tree: Path, tmp_path: Path) -> None:
    setup(tree, "-q", "sdist", "--formats=tar", "--dist-dir", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar")
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    needed = {f"{SOURCES}/{path.name}" for path in (ROOT / SOURCES).iterdir()}
    assert needed | {"setup.py", "pyproject.toml", EXAMPLES} <= packed
    assert not [name for name in packed if name.startswith("benchmarks")]


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "used"), [("cc", "kernel"), ("false", "python")])
def test_an_installation_with_and_without_a_compiler(
    tree: Path, tmp_path: Path, compiler: str, used: str
) -> None:
    """A wheel holds what is built."""
    built = tmp_path / "built"
    told = setup(tree, "build", "--build-lib", str(built), "--build-temp", str(tmp_path), CC=compiler)
    assert not [path for path in built.rglob("*") if path.suffix in (".c", ".h")]
    assert {path.name for path in built.iterdir()} == {"spark_ordered_kafka", "pyspark_ordered_kafka.py"}
    assert (built / EXAMPLES).is_file()
    assert len(list(built.rglob("*.so"))) == (used == "kernel")
    looked = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(built), "ORDERED_KAFKA_NATIVE": "auto"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert looked.stdout.split() == [used], looked.stderr
    if used == "python":
        assert 'building extension "spark_ordered_kafka.native._kernel" failed' in told
        assert "records are read and written in Python" in looked.stderr
    else:
        assert not looked.stderr
