"""Five minutes of ``make chaos``; others each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nemesis.network import ROOT, why_not
from tests.seeds import fresh_seeds

_REASON = why_not()


@pytest.mark.timeout(1800)
@pytest.mark.skipif(_REASON is not None, reason=f"needs network namespaces and TUN devices: {_REASON}")
@pytest.mark.parametrize("seed", fresh_seeds(__name__))
def test_a_cluster_under_faults_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    arguments = ["--minutes", "5", "--seed", str(seed), "--directory", str(tmp_path)]
    command = [sys.executable, "-m", "tests.nemesis.run", "--no-query", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    events = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    actions = {event["action"] for event in events}
    assert {"fault", "healed", "acknowledged", "hold", "operate", "layout", "hosted", "read"} <= actions
