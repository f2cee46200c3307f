"""The audit log's file: lines, rotation, and what happens when it cannot be written."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.controller.monitoring.audit import MAX_KEPT, AuditLog
from spark_ordered_kafka.errors import ConfigError, UnavailableError


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_appended_and_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for event in ("requested", "answered"):
        audit = AuditLog(str(path), lambda: 1767225600.5)
        audit.check()
        audit.require(event, {"principal": "User:ålice", "reason": 'a "quoted"\nreason'})
        audit.close()
    assert lines(path) == [
        {
            "time": "2026-01-01T00:00:00.500+00:00",
            "event": event,
            "principal": "User:ålice",
            "reason": 'a "quoted"\nreason',
        }
        for event in ("requested", "answered")
    ]
    assert path.stat().st_mode & 0o777 == 0o640


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "audit.log"), lambda: 0.0)
    long = "x" * 10_000

    def write(thread: int) -> None:
        for number in range(20):
            audit.add("answered", {"thread": thread, "number": number, "body": long})

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [(line["thread"], line["number"]) for line in lines(tmp_path / "audit.log")]
    assert sorted(written) == [(thread, number) for thread in range(5) for number in range(20)]


def test_a_file_moved_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = AuditLog(str(path), lambda: 0.0)
    audit.add("answered", {"number": 1})
    path.rename(tmp_path / "audit.log.1")
    audit.add("answered", {"number": 2})
    path.unlink()
    audit.add("answered", {"number": 3})
    assert [line["number"] for line in lines(tmp_path / "audit.log.1")] == [1]
    assert [line["number"] for line in lines(path)] == [3]


def test_a_pipe_may_take_the_lines(tmp_path: Path) -> None:
    """As /dev/stdout of a container is one."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = AuditLog(str(path), lambda: 0.0)
    try:
        log.require("requested", {"topic": "t"})
        assert json.loads(os.read(reading, 10_000))["topic"] == "t"
    finally:
        log.close()
        os.close(reading)


def test_a_file_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"audit\.log\.file has the value .*No such file or directory"):
        AuditLog(str(tmp_path / "missing" / "audit.log"), lambda: 0.0).check()
    AuditLog(None, lambda: 0.0).check()


def test_without_the_line_nothing_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    failures: list[None] = []
    audit = AuditLog(str(directory / "audit.log"), lambda: 0.0, lambda: failures.append(None))
    audit.require("requested", {"number": 1})
    (directory / "audit.log").rename(tmp_path / "old")
    directory.rmdir()
    with pytest.raises(UnavailableError, match=r"cannot be written \(No such file or directory\)"):
        audit.require("requested", {"number": 2})
    # What was done already must not fail for it; the line is not lost.
    audit.add("answered", {"number": 3})
    assert len(failures) == 2
    assert '"number":3' in caplog.text
    directory.mkdir()
    audit.require("requested", {"number": 4})
    assert [line["number"] for line in lines(directory / "audit.log")] == [4]


def test_what_is_left_of_a_line_that_was_cut_off_stays_a_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.log"
    audit = AuditLog(str(path), lambda: 0.0)
    audit.require("requested", {"number": 1})
    whole = os.write
    # As on a disk that is full.
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:10]))
    with pytest.raises(UnavailableError, match="only 10 of"):
        audit.require("requested", {"number": 2})
    monkeypatch.undo()
    audit.require("requested", {"number": 3})
    first, torn, last = path.read_text().splitlines()
    assert (json.loads(first)["number"], len(torn), json.loads(last)["number"]) == (1, 10, 3)


def test_what_an_earlier_process_left_of_a_line_swallows_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text('{"number":1}\n{"num')
    for number in (2, 3):
        audit = AuditLog(str(path), lambda: 0.0)
        audit.check()
        audit.require("requested", {"number": number})
        # A new file begins with its first line.
        path.rename(tmp_path / f"{number}.log")
        audit.require("requested", {"number": 10 * number})
        audit.close()
    first, torn, second = (tmp_path / "2.log").read_text().splitlines()
    assert (json.loads(first)["number"], torn, json.loads(second)["number"]) == (1, '{"num', 2)
    assert [line["number"] for line in lines(tmp_path / "3.log")] == [20, 3]
    assert [line["number"] for line in lines(path)] == [30]


def test_without_a_file_lines_go_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="spark_ordered_kafka.audit"):
        AuditLog(None, lambda: 0.0).require("requested", {"principal": "User:alice"})
    # Clients of other tests may still have something to say.
    (record,) = (one for one in caplog.records if one.name == "spark_ordered_kafka.audit")
    assert json.loads(record.getMessage())["principal"] == "User:alice"


@pytest.mark.parametrize("file", [None, "audit.log"])
def test_the_newest_lines_are_kept_within_bounds(tmp_path: Path, file: str | None) -> None:
    audit = AuditLog(None if file is None else str(tmp_path / file), lambda: 0.0)
    assert audit.newest(10) == []
    for number in range(MAX_KEPT + 5):
        audit.add("answered", {"number": number})
    assert [line["number"] for line in audit.newest(2)] == [MAX_KEPT + 4, MAX_KEPT + 3]
    assert [line["number"] for line in audit.newest(MAX_KEPT)][-1] == 5
    for number in range(MAX_KEPT):
        audit.add("answered", {"number": number, "text": "x" * 20_000})
    kept = audit.newest(MAX_KEPT)
    assert 150 < len(kept) < 250
    assert kept[0]["number"] == MAX_KEPT - 1


def test_a_line_that_could_not_be_written_is_not_among_the_newest(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "missing" / "audit.log"), lambda: 0.0)
    with pytest.raises(UnavailableError):
        audit.require("requested", {"number": 1})
    assert audit.newest(10) == []
