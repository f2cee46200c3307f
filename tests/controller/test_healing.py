"""The keys ``healing.*`` and ``webhook.*``, samples, and what ``ordered-kafka healing status`` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.cli import healing
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.automation.rules import QuietHours
from spark_ordered_kafka.controller.config import controller_config
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.healing.sampling import Sample, sample_of
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import DirReplica, LogDir, PartitionDescription, TopicDescription

NEEDED = {"kafka.bootstrap.servers": "k:1", "zookeeper.connect": "z:1"}


def settings(**entries: Any) -> Any:
    named = {name.replace("__", "."): value for name, value in entries.items()}
    return controller_config(NEEDED | named, default_host="h").settings


def test_it_is_off_by_default() -> None:
    assert settings().healing == Rules()
    assert settings().healing.mode == "off"
    assert settings().webhook.url is None


def test_values_are_taken(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    found = settings(
        healing__mode="act",
        healing__broker__away__after__ms=60_000,
        healing__drain__goals=["balance", "racks"],
        healing__throttle__bytes__per__second=0,
        healing__quiet__hours=["Sat 22:00-06:00"],
        webhook__url="https://hooks.example.com/a?sig=secret",
        webhook__token__file=str(tmp_path / "token"),
        webhook__timeout__ms=500,
    )
    rules = found.healing
    assert (rules.mode, rules.broker_away_after, rules.throttle) == ("act", 60.0, None)
    assert rules.drain_goals == ("balance", "racks")
    assert rules.quiet_hours == (QuietHours.parse("q", "Sat 22:00-06:00"),)
    assert (found.webhook.url, found.webhook.timeout) == ("https://hooks.example.com/a?sig=secret", 0.5)
    assert "secret" not in repr(found)


def test_contradictions_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        settings(
            healing__mode="act",
            healing__requests__per__day=0,
            healing__interval__ms=60_000,
            healing__broker__away__after__ms=30_000,
            healing__quiet__hours=["00:00-24:00"],
            autoscale__mode="act",
            autoscale__changes__per__day=0,
            webhook__token__file="/nowhere",
        )
    text = str(caught.value)
    for said in (
        'healing.requests.per.day has the value 0: mode = "act" needs at least 1',
        "healing.broker.away.after.ms has the value 30000: it must be at least healing.interval.ms, which is 60000",
        "healing.quiet.hours has the value 'the whole week': they must end at some time",
        "autoscale.changes.per.day has the value 0",
        "webhook.url is missing: webhook.token.file needs it",
    ):
        assert said in text, text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("healing.mod", "act", "did you mean healing.mode?"),
        ("healing.mode", "on", "healing.mode has the value 'on'"),
        ("healing.max.brokers", 0, "healing.max.brokers has the value 0"),
        ("healing.disk.max.share", 1.5, "healing.disk.max.share has the value 1.5"),
        ("healing.drain.goals", ["leaders"], "healing.drain.goals has the value 'leaders'"),
        ("healing.quiet.hours", ["8-18"], "healing.quiet.hours has the value '8-18': times of day"),
        ("webhook.url", "ftp://secret", "webhook.url has the value '********': a URL such as"),
    ],
)
def test_a_wrong_key_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        controller_config(NEEDED | {name: value}, default_host="h")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "", "two\nlines"])
def test_a_token_that_cannot_be_sent_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"webhook\.token\.file"):
        settings(webhook__url="http://h/", webhook__token__file=str(path))


def topic(*leaders: int) -> dict[str, TopicDescription]:
    rows = tuple(PartitionDescription(p, leader, 0, (1, 2), (1, 2)) for p, leader in enumerate(leaders))
    return {"t": TopicDescription("t", "id", False, rows)}


def dirs(*sizes: int) -> list[LogDir]:
    held = tuple(DirReplica("t", p, size, 0, False) for p, size in enumerate(sizes))
    return [LogDir("/a", replicas=held, total_bytes=1000, usable_bytes=400), LogDir("/b", error_code=56)]


def test_samples_have_counts_rates_and_directories() -> None:
    away = RequestError(ErrorCode.BROKER_NOT_AVAILABLE, "away")
    first = sample_of(0.0, [1, 2], topic(1, 2, -1), {1: dirs(100, 0, 5), 2: dirs(100, 40, 5)}, 0, None)
    one, two = first.brokers
    assert (one.leaders, one.preferred, one.hosted, one.write_rate) == (1, 3, 3, None)
    assert first.displaced == 1
    assert one.directories is not None
    assert [(d.path, d.online, d.used, d.free) for d in one.directories] == [
        ("/a", True, 105, 400),
        ("/b", False, 0, None),
    ]
    assert (one.kafka_share, one.disk_share) == (0.105, 0.6)

    def later(at: float, before: Sample, size: int, *leaders: int) -> Sample:
        return sample_of(at, [1, 2], topic(*leaders), {1: dirs(size, 0, 5), 2: dirs(100, 40, 5)}, 0, before)

    second = later(10.0, first, 600, 1, 2, -1)
    assert [broker.write_rate for broker in second.brokers] == [50.0, 0.0]
    third = later(20.0, second, 100, 1, 2, -1)
    assert third.rates == second.rates, "retention says nothing of what is written"
    fourth = later(30.0, third, 1100, 1, 2, -1)
    assert fourth.rates["t", 0] == 60.0, "a fifth of 100, and of the mean the rest"
    gone = sample_of(40.0, [1], topic(1, -1, -1), {1: dirs(1100), 2: away}, 3, fourth)
    assert [(broker.id, broker.alive, broker.hosted) for broker in gone.brokers] == [
        (1, True, 3),
        (2, False, 3),
    ]
    assert (gone.ongoing, gone.brokers[1].directories, two.kafka_share) == (3, None, 0.145)


def test_a_broker_that_does_not_answer_is_not_one_to_which_nothing_is_written() -> None:
    silent = RequestError(ErrorCode.REQUEST_TIMED_OUT, "silent")

    def at(seconds: float, before: Sample | None, other: Any) -> Sample:
        mine = dirs(round(100 * seconds), 0, 5)
        return sample_of(seconds, [1, 2], topic(1, 2, 2), {1: mine, 2: other}, 0, before)

    def both(sample: Sample) -> list[float | None]:
        return [broker.write_rate for broker in sample.brokers]

    never = at(20.0, at(10.0, None, silent), silent)
    assert both(never) == [100.0, None]
    once = at(30.0, never, dirs(0, 1000, 1000))
    assert both(once) == [100.0, None], "a rate takes two answers"
    known = at(40.0, once, dirs(0, 2000, 3000))
    assert both(known) == [100.0, 300.0]
    lost = at(50.0, known, silent)
    assert both(lost) == [100.0, None]
    assert lost.rates == known.rates, "for the plan that evens leaders out"
    assert both(at(60.0, lost, dirs(0, 4000, 5000))) == [100.0, 300.0]


def test_the_status_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    log_dir = schemas.HealingDirectory(
        path="/a", online=True, used_bytes=2**40, free_bytes=2**39, total_bytes=2**41
    )
    broker = schemas.HealingBroker(
        broker=1, alive=True, hosted=1000, leaders=500, preferred=500, write_rate=1.5e8, log_dirs=[log_dir]
    )
    away = schemas.HealingBroker(
        broker=1002, alive=False, hosted=1000, leaders=0, preferred=333, write_rate=None, log_dirs=None
    )
    view = schemas.HealingView(
        mode="act",
        at=1.0,
        brokers=[broker, away],
        findings=[schemas.HealingFinding(kind="broker_away", subject="1002", since=0.0, reason="it is away")],
        proposals=[schemas.HealingProposal(action="drain", brokers=[1002], held_by="budget", reason="why")],
        requests_in_last_day=6,
        requests_per_day=6,
        history=[
            schemas.HealingDecision(
                at=0.0, action="drain", brokers=[7], outcome="done", held_by=None, reason="r",
                partitions=12, bytes_to_move=2**30, request_id=9,
            )
        ],
    )  # fmt: skip
    healing._show(view)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[0] == "mode act; 6 of 6 requests in the last 24 hours"
    assert "broker_away 1002, since 1970-01-01 00:00:00 UTC" in lines
    assert "proposal: drain 1002 (held: budget)" in lines
    assert "1970-01-01 00:00:00 UTC: drain 7: done, 12 partitions, 1.0 GiB, reassignment 9" in lines
    assert next(line for line in lines if line.startswith("1002")).split()[:5] == [
        "1002",
        "away",
        "1000",
        "0",
        "333",
    ]
