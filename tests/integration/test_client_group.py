"""A group of consumers that are processes, while its topic changes and its members are killed.

Every run has a new seed; ``GROUP_SEED=123 pytest tests/integration/test_client_group.py`` runs one again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.group_crew import Crew
from tests.integration.group_judge import checked
from tests.streams import NumberedWriter, change, create

_PARTITIONS, _MOST_PARTITIONS = 2, 7


@pytest.fixture
def crew(cluster: LocalCluster, topic_name: str, tmp_path: Path) -> Iterator[Crew]:
    with Crew(cluster, create(cluster, topic_name, _PARTITIONS), tmp_path) as crew:
        yield crew


class Faults:
    """What is done to a group of three members, at random; a failure inside the block tells all of it.

    Args:
        crew: starts and ends them.
        member: starts a member.
        progress: waits until the group has got on by so many records.
    """

    def __init__(self, crew: Crew, member: Callable[[str], str], progress: Callable[[int], None]) -> None:
        self.seed = int(os.environ.get("GROUP_SEED", random.SystemRandom().randrange(10**6)))
        self.trace: list[str] = []
        self.writers: list[str] = []
        self._crew = crew
        self._member = member
        self._progress = progress
        self._rng = random.Random(self.seed)
        self._counts: dict[str, int] = {}
        self._started = 0
        self._members: list[str] = []
        for _ in range(3):
            self.add_member()

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise AssertionError(
                f"GROUP_SEED={self.seed}: {error}\n"
                f"members that were taken for dead: {self._crew.judge.lost}\n{self.trace}"
            ) from error

    def run(self, steps: list[Callable[[], None]]) -> None:
        """The steps in random order, at random moments."""
        self._rng.shuffle(steps)
        for step in steps:
            self._progress(self._rng.randint(1, 600))
            step()
        for topic in self._counts:
            self._crew.await_change(topic)

    def change(self, topic: str) -> None:
        """Ask for another count; what comes next happens during the change."""
        self._crew.await_change(topic)
        known = self._counts.get(topic, _PARTITIONS)
        self._counts[topic] = self._rng.choice([n for n in range(2, _MOST_PARTITIONS + 1) if n != known])
        self.trace.append(f"{topic[-4:]}: {self._counts[topic]} partitions")
        self._crew.begin_change(topic, self._counts[topic])

    def replace_member(self) -> None:
        self._crew.kill(self._pick(self._members))
        self.add_member()

    def stop_member(self) -> None:
        self._crew.stop(self._pick(self._members))

    def add_member(self) -> None:
        self._members.append(self._member(self._name("member")))

    def add_writer(self) -> None:
        self.writers.append(self._crew.writer(self._name("writer")))

    def replace_writer(self) -> None:
        self._crew.kill(self._pick(self.writers))
        self.add_writer()

    def _pick(self, names: list[str]) -> str:
        name = names.pop(self._rng.randrange(len(names)))
        self.trace.append(f"end of {name}")
        return name

    def _name(self, kind: str) -> str:
        self._started += 1
        self.trace.append(f"start of {kind}{self._started}")
        return f"{kind}{self._started}"


@pytest.mark.long
@pytest.mark.timeout(400)
def test_order_and_handover_through_random_faults(crew: Crew) -> None:
    judge = crew.judge
    with Faults(crew, crew.member, crew.await_progress) as faults:
        for _ in range(3):
            faults.add_writer()
        changes = [lambda: faults.change(crew.topic)] * 5
        deaths = [faults.replace_member] * 2 + [faults.replace_writer]
        faults.run(changes + deaths + [faults.stop_member, faults.add_member])
        for writer in faults.writers:
            crew.stop(writer)
        crew.await_all_processed()
        written = crew.written()
        assert judge.violations == []
        report = judge.report(len(written))
        assert report.violations == 0, report
        assert judge.processed == written
        there = set(written.values())
        missing = [key for key, count in judge.acknowledged.items() if (key, count - 1) not in there]
        assert missing == [], "acknowledged and not in the log"
        assert judge.handed_over > 0
    print(  # noqa: T201 - shown by pytest -s
        f"seed {faults.seed}: {report}, {judge.handed_over} hand-overs, {judge.redelivered} delivered again,"
        f" {judge.lost} lost; {faults.trace}"
    )


_STATIC = {"group.instance.id": "one", "session.timeout.ms": "6000"}
_OVER = 7.0
"""Seconds after which a static member's own clock says that its session is over."""


def _is_past(moment: float) -> bool:
    return time.monotonic() > moment


@pytest.mark.long
def test_a_static_member_that_stood_still_leaves_its_place_to_the_process_that_has_it(crew: Crew) -> None:
    """As one whose machine was taken for dead, and replaced (D-501)."""
    crew.writer("writer")
    crew.member("first", **_STATIC)
    crew.await_progress(10)
    with crew.paused("first"):
        over = time.monotonic() + _OVER
        crew.member("second", **_STATIC)
        crew.await_progress(10)
        crew.wait_for(partial(_is_past, over), "the end of the first one's session")
    assert "another process has joined with the same group.instance.id, 'one'" in crew.tail("first")
    assert crew.judge.lost == ["first"]
    crew.await_progress(10)
    crew.stop("writer")
    crew.await_all_processed()
    report = crew.judge.report(len(crew.written()))
    assert report.violations == 0, report
    crew.stop("second")


# -- the judge, judged ----------------------------------------------------------------------------------------------


@pytest.fixture
def writer(cluster: LocalCluster, crew: Crew) -> NumberedWriter:
    """Of the crew's topic, which has four partitions now."""
    change(cluster, crew.topic, 4)
    return NumberedWriter(cluster, crew.topic, keys=40, step=1)


def start_three(crew: Crew, writer: NumberedWriter, fault: str) -> None:
    """Three members that have partitions and hold keys of all of them."""
    for number in range(3):
        # None dies: whoever stands still keeps its partitions, also on a busy machine.
        crew.member(f"reader{number}", fault, **{"session.timeout.ms": "30000"})
    while len(crew.judge.holding()) < 3:
        writer.write()
        crew.await_all_processed()


def shrink_while_a_member_stands_still(cluster: LocalCluster, crew: Crew, writer: NumberedWriter) -> str:
    """Partition 2's reader is held with a record of each of its keys; the next ones lie in partition 0 already."""
    sleeper = crew.judge.reader(2)
    crew.server.hold(sleeper)
    writer.write()
    crew.wait_for(lambda: crew.server.is_held(sleeper), f"{sleeper} stands still")
    change(cluster, crew.topic, 2)
    writer.write()
    return sleeper


@pytest.mark.long
def test_keys_wait_for_a_member_that_stands_still(
    cluster: LocalCluster, crew: Crew, writer: NumberedWriter
) -> None:
    start_three(crew, writer, "none")
    sleeper = shrink_while_a_member_stands_still(cluster, crew, writer)
    others = {place for place in crew.written() if place[0] == 1}
    crew.wait_for(
        lambda: others <= crew.judge.processed.keys(), "partition 1 processed, which waits for nobody"
    )
    crew.server.release(sleeper)
    crew.await_all_processed()
    assert crew.judge.violations == []
    report = crew.judge.report(writer.written)
    assert report.violations == 0, report
    assert crew.judge.handed_over > 0


@pytest.mark.long
def test_the_judge_finds_members_that_do_not_wait(
    cluster: LocalCluster, crew: Crew, writer: NumberedWriter
) -> None:
    start_three(crew, writer, "ungated")
    sleeper = shrink_while_a_member_stands_still(cluster, crew, writer)
    told = f"while {sleeper} holds it from 2"
    crew.wait_for(lambda: any(told in text for text in crew.judge.violations), "the violation found")
    crew.server.release(sleeper)
    crew.await_all_processed()
    assert crew.judge.report(writer.written).out_of_order > 0


@pytest.mark.long
def test_the_judge_finds_members_that_give_nothing_up(
    cluster: LocalCluster, crew: Crew, writer: NumberedWriter
) -> None:
    start_three(crew, writer, "deaf")
    change(cluster, crew.topic, 2)
    writer.write()
    crew.wait_for(lambda: bool(crew.judge.violations), "the violation found")
    crew.await_all_processed()
    # It is the hand-over alone that is wrong.
    assert crew.judge.report(writer.written).violations == 0


# -- exactly once ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("most", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_group_copies_exactly_once_through_random_faults(
    cluster: LocalCluster, crew: Crew, topic_name: str, most: int
) -> None:
    target = create(cluster, f"{topic_name}-copy", _PARTITIONS)
    source = NumberedWriter(cluster, crew.topic, keys=40, step=2)
    with Faults(crew, lambda name: crew.copier(name, target), crew.await_committed) as faults:
        with source.under_load():
            changes = [lambda: faults.change(crew.topic), lambda: faults.change(target)] * most
            faults.run(
                changes + [faults.replace_member] * max(1, most - 1) + [faults.stop_member, faults.add_member]
            )
        crew.wait_for(lambda: len(crew.written(target)) >= source.written, f"{source.written} records copied")
        report = checked(crew.written(target).values(), source.written)
        assert report.violations == 0, report
    print(f"seed {faults.seed}: {report}; {faults.trace}")  # noqa: T201 - shown by pytest -s


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_static_member_that_stands_still_is_replaced_and_everything_is_copied_exactly_once(
    cluster: LocalCluster, crew: Crew, topic_name: str
) -> None:
    target = create(cluster, f"{topic_name}-copy", _PARTITIONS)
    source = NumberedWriter(cluster, crew.topic, keys=40, step=2)
    with source.under_load():
        last = crew.copier("copier0", target, **_STATIC)
        for number in range(1, 6):
            crew.await_committed(100)
            with crew.paused(last):
                over = time.monotonic() + _OVER
                last = crew.copier(f"copier{number}", target, **_STATIC)
                crew.await_committed(100)
                crew.wait_for(partial(_is_past, over), "the end of the session")
    crew.wait_for(lambda: len(crew.written(target)) >= source.written, f"{source.written} records copied")
    report = checked(crew.written(target).values(), source.written)
    assert report.violations == 0, report
    crew.stop(last)
