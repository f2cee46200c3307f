"""The lock file between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import LocalClusterError, OrderedKafkaError
from spark_ordered_kafka.locking import file_lock
from tests.servers import TIMEOUT


def test_a_lock_is_waited_for_and_freed_by_the_death_of_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold = (
        "import sys; from pathlib import Path; from spark_ordered_kafka.locking import file_lock\n"
        f"with file_lock(Path({str(path)!r}), timeout=5, what='it'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(LocalClusterError, match="the cache is in use by another process"),
            file_lock(path, timeout=0.3, what="the cache", error=LocalClusterError),
        ):
            pytest.fail("two holders")
        holder.kill()
        with file_lock(path, timeout=TIMEOUT, what="the cache"):
            pass


def test_a_lock_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OrderedKafkaError, match="the cache cannot be used: "),
        file_lock(tmp_path / "file" / "lock", timeout=0, what="the cache"),
    ):
        pytest.fail("there is none")
