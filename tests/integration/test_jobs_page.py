"""docs/jobs.md as written: every block in order, in a fresh directory, on real servers and a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.blocks import Shell, blocks
from tests.integration.test_readme import ENVIRONMENT, ROOT, TIMEOUT, assert_stated, home

__all__ = ["home"]

BLOCKS = list(blocks((ROOT / "docs" / "jobs.md").read_text()))


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_block_of_the_page_runs_in_order(home: Path) -> None:
    shell = Shell(home, ENVIRONMENT)
    printed = ""
    try:
        for block in BLOCKS:
            if block.kind == "bash":
                printed = shell.run(block.text, TIMEOUT)
            else:
                assert_stated(block, printed)
    finally:
        shell.close()
        LocalCluster(home / "other").down()
    assert {block.kind for block in BLOCKS} == {"bash", "text"}
