"""Runs a Spark program on real servers, judges it, and prints it as Python code that runs by itself."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.programs import prelude, spark_checkpoint, spark_faults, spark_prelude, spark_topics
from tests.programs.books import Record
from tests.programs.logs import read_log
from tests.programs.running import BrokenPromiseError
from tests.programs.spark_judge import Row, SparkJudge, Standing, gist, is_busy, remedy
from tests.programs.spark_steps import IN_FUNCTION, Job, Read, Run, SparkProgram, SparkStep, Tamper
from tests.queries import await_stable

_TRIES = 8
_IMPORTS = ("from __future__", "from tests.programs")


class SparkRun:
    """One run of a program, with topics and a checkpoint of its own."""

    def __init__(self, cluster: LocalCluster, session: SparkSession, program: SparkProgram) -> None:
        self.program = program
        self.lines: list[tuple[str, Exception | None]] = []
        self.judge = SparkJudge(program.job)
        self.seconds = 0.0
        self._cluster = cluster
        self._home = Path(tempfile.mkdtemp(prefix="spark-program-"))
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "controller.url": cluster.controller_url}
        job = dataclasses.asdict(program.job)
        self._ids: dict[str, str] = {}
        self._use = spark_prelude.SparkUse(servers, session, self._home, job, self._tell)
        self._use.make_topics()
        self._keys: dict[str, tuple[str, str | None]] = {}
        self._written: list[str] = []
        self._rows: dict[str, list[Row]] = {}
        self._elsewhere: str | None = None

    def __str__(self) -> str:
        refused = sum(error is not None for _, error in self.lines)
        return f"{len(self.lines)} lines, {refused} refused; {self.records} records; {self.seconds:.1f} s"

    @property
    def records(self) -> int:
        """Written to the source."""
        return len(self._written)

    def go(self) -> list[str]:
        """Run it; the promises that it broke."""
        begun = time.monotonic()
        try:
            for step in self.program.steps:
                self._do(step)
                if self.judge.violations:
                    break
            else:
                self._finish()
            return self.judge.violations
        finally:
            for client in self._use.clients.values():
                client.close()
            shutil.rmtree(self._home, ignore_errors=True)
            self.seconds = time.monotonic() - begun

    # -- steps --------------------------------------------------------------------------------------------------

    def _do(self, step: SparkStep) -> str | None:
        """The error's text."""
        if step == Tamper("rename writer") and self.program.job.kind in IN_FUNCTION:
            # Of several names in one batch none is a wrong one, so that is not looked at (D-276).
            return None
        if isinstance(step, Run):
            for source in self._ids:
                await_stable(self._cluster, self._use.topics[source])
        written, writer = list(self._written), self._use.writer
        self._elsewhere = None
        error = self._exec(step.code())
        if isinstance(step, Run):
            self._judge_run(step, error, written)
        elif error is not None and is_busy(error):
            return error
        elif error is not None:
            self.judge.violations.append(f"{step} raised {error}")
        elif isinstance(step, Read):
            self._judge_read(step)
        if isinstance(step, Tamper):
            self.judge.tampered(step, self._standing())
        if writer != self._use.writer:
            self.judge.named(self._use.writer)
        return error

    def _judge_run(self, run: Run, error: str | None, written: list[str]) -> None:
        logs = {self._use.topics[name]: self._log(name) for name in self.program.job.targets}
        self.judge.ran(run, error, self._standing(), logs, written)
        if run.event == "another driver" and self._elsewhere is not None:
            self.judge.judge_beside(run, error, self._elsewhere)
        if not self.judge.is_older:
            self._use.checkpoint.forget_aside()

    def _judge_read(self, step: Read) -> None:
        self.judge.read(step.topic, self._rows[step.topic], self._log(step.topic))

    def _log(self, name: str) -> list[Record]:
        await_stable(self._cluster, self._use.topics[name])
        return read_log(self._cluster, self._use.topics[name])

    def _standing(self) -> Standing:
        found = self._use.checkpoint.standing()
        return Standing() if found is None else Standing(*found)

    def _finish(self) -> None:
        """Bring the query to its end, as the docs and its errors say."""
        if self.judge.is_older:
            self._do(Tamper("newest"))
        run, tries = self._last_run(), 0
        while (error := self._do(run)) is not None and not self.judge.violations:
            if is_busy(error):
                continue
            tries += 1
            if tries == _TRIES:
                self.judge.violations.append(f"the query does not come to its end: {error}")
                return
            first, run = remedy(error, self.judge, run)
            if first is not None:
                self._do(first)
        for name in (*self.program.job.sources, *self.program.job.targets):
            if not self.judge.violations:
                self._do(Read(name))

    def _last_run(self) -> Run:
        """As the batch in flight was run first, or as the last one was."""
        last = self.judge.batches[self.judge.standing.batch]
        tasks, unordered = last.tasks[0] if last.tasks else ("as read", False)
        return Run(tasks=tasks, unordered=unordered)

    def _exec(self, code: str) -> str | None:
        failure: Exception | None = None
        try:
            exec(code, {"use": self._use})
        except (PySparkException, AssertionError) as error:
            failure = error
        self.lines.append((code, failure))
        return None if failure is None else str(failure)

    def _tell(self, who: str, what: str, about: Any) -> None:
        if what == "produced":
            topic, key, number = about
            self._keys[number] = topic.partition("-")[0], key
        elif what == "report":
            number, error, partition, offset = about
            assert error is None, error
            self._written.append(number)
            name, key = self._keys[number]
            self.judge.wrote(Record(self._ids[name], partition, offset, key, number))
        elif what == "created":
            self._ids[who] = about
            self.judge.created()
        elif what == "deleted":
            self.judge.deleted(self._ids[who], about)
        elif what == "dropped":
            self.judge.dropped(self._ids.pop(who))
        elif what == "read":
            self._rows[who] = about
        elif what == "ended":
            self._elsewhere = about

    # -- its code -----------------------------------------------------------------------------------------------

    def code(self) -> str:
        """See :func:`code_of`."""
        return code_of(self.program.job, self.lines, self.judge.violations)


def code_of(job: Job, lines: list[tuple[str, Exception | None]], violations: list[str]) -> str:
    """A program as a file that runs by itself, on the servers of ``BOOTSTRAP_SERVERS``."""
    shown = ", ".join(f"{name}={value!r}" for name, value in dataclasses.asdict(job).items())
    body = [f"use = spark_from_environment({shown})"]
    for code, error in lines:
        if error is None:
            body.append(code)
        else:
            body += ["with query_errors():", f"    {code}", *_comments(gist(str(error)))]
    body += [line for text in violations for line in _comments(text)]
    source = "\n".join(
        map(_without_imports, (prelude, spark_checkpoint, spark_faults, spark_topics, spark_prelude))
    )
    main = textwrap.indent("\n".join(body), "    ")
    return (
        f"from __future__ import annotations\n{source}\n\ndef main() -> None:\n{main}\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )


def _without_imports(module: Any) -> str:
    lines = inspect.getsource(module).splitlines()
    return "\n".join(line for line in lines if not line.startswith(_IMPORTS))


def _comments(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 105)]


def check_spark(cluster: LocalCluster, session: SparkSession, program: SparkProgram) -> SparkRun:
    """Run the program; raises BrokenPromiseError with what it broke and its code."""
    run = SparkRun(cluster, session, program)
    violations = run.go()
    if violations:
        raise BrokenPromiseError("\n".join([*violations[:5], "", run.code()]))
    return run
