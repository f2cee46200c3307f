"""The blocks of the pages, and a shell on a terminal of 80 columns that runs them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 80

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"[Ss]ave this as `([\w./-]+)`")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->\n\Z")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Block:
    """``kind`` is the block's language; a python block is to be saved as ``file``; ``line`` is where it begins.

    ``not_run`` is why a test cannot run it, as a comment in the line before says: ``<!-- not run: … -->``.
    """

    kind: str
    text: str
    line: int
    file: str | None
    not_run: str | None


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page in order; the text between the block before and a python block says what its file is."""
    end = 0
    for found in _BLOCK.finditer(page):
        before = page[end : found.start()]
        named, not_run = _FILE.findall(before), _NOT_RUN.search(before)
        end = found.end()
        file = named[-1] if named and found[1] == "python" else None
        yield Block(found[1], found[2], page.count("\n", 0, found.start()) + 1, file, not_run and not_run[1])


class Shell:
    """A bash on a terminal of its own that ends with the first command that fails, and what it started with it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._terminal, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self._blocks = 0
        self._directory = directory
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e"],
            cwd=directory,
            env={**environment, "TERM": "xterm"},
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def run(self, text: str, timeout: float) -> str:
        """Run a block and return what it printed; fails when one of its commands does, or after ``timeout`` seconds."""
        self._blocks += 1
        file, mark = self._directory / f".block-{self._blocks}.sh", f"end of block {self._blocks}"
        file.write_text(text)
        assert self._bash.stdin is not None
        self._bash.stdin.write(f". ./{file.name}\necho '{mark}'\n".encode())
        self._bash.stdin.flush()
        deadline, printed = time.monotonic() + timeout, b""
        while mark.encode() not in printed:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not within {timeout:g} s:\n{text}\nprinted\n{_plain(printed)}"
            try:
                more = os.read(self._terminal, 65536)
            except OSError:  # of a terminal that nobody writes to any more
                more = b""
            assert more, f"a command failed:\n{text}\nprinted\n{_plain(printed)}"
            printed += more
        return _plain(printed).partition(mark)[0]

    def close(self) -> None:
        """Kill whatever still runs."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        os.close(self._terminal)


def _plain(printed: bytes) -> str:
    return _ANSI.sub("", printed.decode(errors="replace")).replace("\r\n", "\n")
