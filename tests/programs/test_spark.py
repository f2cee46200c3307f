"""Programs of Spark queries, drawn at random and judged by a model: others in every run.

``PROGRAMS=50 pytest tests/programs/test_spark.py`` runs so many; ``make programs OF=spark MINUTES=30`` for so long.
"""

from __future__ import annotations

import ast
import os
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.programs.books import Record
from tests.programs.found import FOUND_SPARK
from tests.programs.search import search
from tests.programs.spark_drawing import spark_programs
from tests.programs.spark_judge import INJECTED, LOSS, OLDER, TWO_DRIVERS, SparkJudge, Standing
from tests.programs.spark_running import check_spark, code_of
from tests.programs.spark_steps import Job, Run, SparkProgram, Write
from tests.seeds import examples

# hypothesis begins with the simplest one.
MANY = int(os.environ.get("PROGRAMS", examples(11)))
_WRITE = Write(("k0", "k1", "k2", "k3"), 5)


@pytest.mark.timeout(1200)
def test_programs_of_spark_copy_every_record_once_or_say_why_not(
    cluster: LocalCluster, spark: SparkSession
) -> None:
    search(spark_programs(), lambda program: check_spark(cluster, spark, program), MANY)


# -- the judge, judged ----------------------------------------------------------------------------------------------

OUT_TOPIC, SINK = "out-1", Job()
COMMITTED = Standing(0, True, {}, {("a-1", 0): 9})
IN_FLIGHT = Standing(0, False, {}, {("a-1", 0): 9})
HALF_IN_FLIGHT, HALF = (Standing(0, committed, {}, {("a-1", 0): 2}) for committed in (False, True))
MISMATCH = "task 'x' replays batch 0 with 2 rows that are not the 3 rows it committed the first time."


def judged(*runs: tuple[Run, str | None, Standing, str], job: Job = SINK) -> list[str]:
    """What is broken when records 0 to 3 of two keys are copied; each run says which of them are in the target then."""
    judge = SparkJudge(job)
    for offset, key in enumerate("xyxy"):
        judge.wrote(Record("a-1", 0, offset, key, f"{offset}"))
    for run, error, standing, numbers in runs:
        there = [Record(OUT_TOPIC, 0, at, "xyxy"[int(n)], n) for at, n in enumerate(numbers)]
        judge.ran(run, error, standing, {OUT_TOPIC: there}, "0123")
    return judge.violations


@pytest.mark.parametrize(
    ("run", "error", "standing", "there", "broken"),
    [
        (Run(), None, COMMITTED, "0123", None),
        (Run(), None, COMMITTED, "1032", None),
        (Run(), None, COMMITTED, "2103", "in this order"),
        (Run(), None, COMMITTED, "01233", "more than once: 1 records: 3"),
        (Run(), None, COMMITTED, "012", "lacks 1 records: 3"),
        (Run(), None, IN_FLIGHT, "0123", "ended without 4 records"),
        (Run(event="task fails"), INJECTED, IN_FLIGHT, "02", None),
        (Run(event="task fails"), INJECTED, IN_FLIGHT, "022", "more than once"),
        (Run(), INJECTED, IN_FLIGHT, "", "without a reason"),
        (Run(), MISMATCH, IN_FLIGHT, "0123", "without a reason"),
        (Run(), LOSS, IN_FLIGHT, "", "without a reason"),
    ],
)
def test_the_judge_finds_what_is_wrong(
    run: Run, error: str | None, standing: Standing, there: str, broken: str | None
) -> None:
    found = judged((run, error, standing, there))
    assert bool(found) == (broken is not None), found
    assert broken is None or any(broken in text for text in found), found


def test_only_what_a_query_says_of_a_batch_excuses_its_records() -> None:
    first = (Run("repartition 5", event="task fails"), INJECTED, IN_FLIGHT, "02")
    said = (Run("repartition 2"), MISMATCH, IN_FLIGHT, "0202")
    assert judged(first, said) == []
    silent = (Run("repartition 2"), None, COMMITTED, "020213")
    assert any("more than once" in text for text in judged(first, silent))


@pytest.mark.parametrize("trigger", ["once", "availableNow"])
def test_a_run_of_one_batch_runs_the_batch_that_was_under_way(trigger: str) -> None:
    first = (Run(limit=2, event="task fails"), INJECTED, HALF_IN_FLIGHT, "")
    found = judged(first, (Run(trigger=trigger), None, HALF, "01"))
    assert bool(found) == (trigger != "once"), found


def test_a_driver_that_another_one_has_overtaken_is_refused_for_a_reason() -> None:
    run = Run(event="another driver")
    for other, broken in ((OLDER, 0), (TWO_DRIVERS.partition("|")[0], 0), (MISMATCH, 1)):
        judge = SparkJudge(SINK)
        judge.judge_beside(run, None, other)
        assert len(judge.violations) == broken, judge.violations


def test_two_writes_under_one_name_are_to_be_refused() -> None:
    assert any(
        "two writes of a batch have one name" in text
        for text in judged((Run(shared=True), None, COMMITTED, "0123"), job=Job("each"))
    )


def test_a_write_under_the_name_of_another_one_may_meet_its_rows_in_a_batch_that_is_done_again() -> None:
    first = (Run("repartition 5", event="function fails", at=2), INJECTED, IN_FLIGHT, "0123")
    run = Run("repartition 5", shared=True)
    assert not any(
        "reason" in text for text in judged(first, (run, MISMATCH, IN_FLIGHT, "0123"), job=Job("each"))
    )
    plain = (replace(run, shared=False), MISMATCH, IN_FLIGHT, "0123")
    assert any("without a reason" in text for text in judged(first, plain, job=Job("each")))


def test_a_program_is_printed_as_a_file() -> None:
    line = Run(tasks="repartition 3", event="task fails", at=3).code()
    code = code_of(Job("each"), [(line, ValueError("x" * 700))], ["it has\nbroken a promise"])
    compile(code, "program.py", "exec")
    # A module's names would be taken for those of the one before it.
    defined = [one.name for one in ast.parse(code).body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    assert sorted(defined) == sorted(set(defined))
    assert f"    with query_errors():\n        {line}\n    # x" in code


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FOUND_SPARK)
def test_what_was_found_of_spark_once_is_not_found_again(
    cluster: LocalCluster, spark: SparkSession, name: str
) -> None:
    check_spark(cluster, spark, FOUND_SPARK[name])


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("event", ["driver dies", "another driver"])
def test_a_driver_is_killed_in_mid_batch_or_not_alone(
    cluster: LocalCluster, spark: SparkSession, event: str
) -> None:
    tasks = "repartition 3"
    steps = (_WRITE, Run(tasks), _WRITE, Run(tasks, event=event, at=3, limit=20), _WRITE, Run(tasks))
    for job in (Job("sink"), Job("each", headers=True)):
        check_spark(cluster, spark, SparkProgram(job, steps))
