"""Programs of plain clients, drawn at random and judged by a model (``PROGRAMS=500``: so many; `make programs`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.local import LocalCluster
from tests.integration.group_member import read_on
from tests.programs.running import BrokenPromiseError
from tests.programs.search import find
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(60)))
ROOT = Path(__file__).parents[2]


def test_programs_of_plain_clients_keep_every_promise(cluster: LocalCluster) -> None:
    find(cluster, MANY)


# -- the judge, judged ----------------------------------------------------------------------------------------------


def stay(self: OrderedConsumer) -> None:
    """A rewind that does nothing."""


PLANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "rewind does nothing": (OrderedConsumer, "_rewind", stay),
    "the gate is always open": (TopicProgress, "gate", read_on),
}


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTS)
def test_what_breaks_a_promise_is_found_and_printed_as_a_short_program(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plant: str
) -> None:
    where, name, instead = PLANTS[plant]
    with monkeypatch.context() as planted:
        planted.setattr(where, name, instead)
        with pytest.raises(BrokenPromiseError) as found:
            find(cluster, 300)
    violation, _, code = str(found.value).partition("\n\n")
    print(violation, code[code.index("def main") :])  # noqa: T201 - shown by pytest -s
    assert "neither committed nor its own" in violation
    file = tmp_path / "program.py"
    file.write_text(code)
    servers = {
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
    }
    run = subprocess.run(
        [sys.executable, file], env={**os.environ, **servers}, cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert " got " in run.stdout
