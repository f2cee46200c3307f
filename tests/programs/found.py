"""Programs that have broken a promise: each is run again with every test run."""

from __future__ import annotations

from tests.programs.spark_steps import SparkProgram
from tests.programs.steps import Act, Consume, Member, Program, Write

_WRITE = Write("w0", "a", ("k0", "k1", "k2"), 4)

FOUND = {
    # Its offsets were refused: librdkafka commits nothing more once a member that others wait for is being closed.
    "a member is closed while another one was about to join": Program(
        (Member(auto=True), Member()),
        (_WRITE, Consume(0, 2, 1.0), Consume(1, 2, 0.0), Act("c1", "close"), Act("c0", "close")),
    ),
}

FOUND_SPARK: dict[str, SparkProgram] = {}
"""The same of Spark."""
