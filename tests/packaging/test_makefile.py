"""What the Makefile does on the way to `make demo`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.packaging.requirements import ROOT

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "stub"
version = "1.0"
"""
# Needs nothing that would have to be downloaded.
BACKEND = """
from pathlib import Path
from zipfile import ZipFile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = "stub-1.0-py3-none-any.whl", "stub-1.0.dist-info"
    with ZipFile(Path(wheel_directory, name), "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: stub\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.mark.long
def test_an_environment_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """`python -m venv` was interrupted before it had installed pip. The path of the project has a space."""
    home = tmp_path / "a directory"
    home.mkdir()
    shutil.copy(ROOT / "Makefile", home)
    (home / "pyproject.toml").write_text(PROJECT)
    (home / "backend.py").write_text(BACKEND)
    (home / "setup.py").touch()
    (home / "spark_ordered_kafka").mkdir()
    (home / "spark_ordered_kafka" / "version.py").touch()
    venv.create(home / ".venv", symlinks=True, with_pip=False)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "venv", f"PYTHON={sys.executable}"],
        cwd=home,
        env=environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (home / ".venv" / ".installed").exists()
    assert (home / ".venv" / "bin" / "pip").exists()


def test_processes_keep_what_they_compile() -> None:
    """Where a container sets this, each process of a test would compile hundreds of modules anew."""
    unwanted = "PYTHONDONTWRITEBYTECODE"
    shown = subprocess.run(
        ["make", "--silent", "--eval", f"shown: ; @printenv {unwanted}", "shown"],
        cwd=ROOT,
        env=os.environ | {unwanted: "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.stdout == "\n"
