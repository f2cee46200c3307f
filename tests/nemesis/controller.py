"""The command line with a clock that is wrong: ``python -m tests.nemesis.controller FILE ARGUMENTS...``.

FILE has the seconds by which it is ahead. A controller takes its time once, at its start, and counts on from there, so a clock
that jumps later changes nothing but the times in its log.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_ahead = float(Path(sys.argv.pop(1)).read_text())
_right = time.time
time.time = lambda: _right() + _ahead

from spark_ordered_kafka.cli import main  # noqa: E402 - the clock is wrong from the start

main()
