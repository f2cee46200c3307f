"""What a Spark program needs beside Spark: a query by its settings, faults in the middle of it, and its checkpoint.

A program that breaks a promise is printed with this text, and those of the other modules that it imports from here, before
it, so that it runs by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.programs.prelude import NUMBER
from tests.programs.spark_checkpoint import Checkpoint
from tests.programs.spark_faults import INJECTED, InjectedError, acting, kill_tree
from tests.programs.spark_topics import SparkTopics

FORMAT = "ordered-kafka"
HALF = "coalesce(crc32(key), 0) % 2"
_DEADLINE = 300
_ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
_ARROW = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNORDERED = {"ordering": "none", "maxRecordsPerPartition": 7}
_READ: dict[str, dict[str, Any]] = {
    "group": {"kafka.group.id": "readers"},
    "waits for more": {"minOffsetsPerTrigger": 8, "maxTriggerDelay": "1s"},
    "no misrouted": {"misroutedRecords": "fail"},
}
_WRITE = {"spills": {"replayBufferBytes": "100"}, "timestamps": {"keepTimestamps": "true"}}


class SparkUse(SparkTopics):
    """One query, from ``a``, or ``a`` and ``b``, to ``out`` or ``out2``, its checkpoint and its topics."""

    def __init__(
        self,
        servers: dict[str, str],
        session: SparkSession | None,
        home: Path,
        job: dict[str, Any],
        tell: Callable[[str, str, Any], object] = print,
        run: str | None = None,
    ) -> None:
        super().__init__(servers, ("a",) if job["reads"] == "one" else ("a", "b"), tell, run)
        self.job, self.home, self.session = job, home, session
        self.checkpoint = Checkpoint(home)
        self.names = 0
        self.writer = "w0" if job["named"] else None
        self.last_error = ""
        self._accepted: list[str] = []

    def read(self, name: str) -> None:
        """Read a topic by a batch query."""
        self.make_topics()
        read = self._options(subscribe=self.topics[name], includeHeaders="true")
        rows = self._session.read.format(FORMAT).options(**read).load()
        found = rows.select("key", "value", "headers").toArrow().to_pylist()
        self.tell(
            name,
            "read",
            [(_decoded(row["key"]), _decoded(row["value"]), _number(row["headers"])) for row in found],
        )

    # -- the query ----------------------------------------------------------------------------------------------

    def run_query(self, **settings: Any) -> None:
        """Run the query with the settings of a ``Run``; raises its error."""
        try:
            if settings.get("event") in ("driver dies", "another driver"):
                self._run_elsewhere(settings)
            else:
                self._run_here(settings)
        except PySparkException as error:
            self.last_error = str(error)
            raise

    def _run_here(self, settings: dict[str, Any]) -> None:
        event, queries = settings.get("event"), [self.start(**settings)]
        try:
            if event == "is stopped":
                if self._reached(lambda: queries[0].isActive):
                    return
            elif event == "starts again":
                if self._reached(lambda: queries[0].isActive):
                    # Spark stops the first one.
                    queries.append(self.start(**{**settings, "event": ""}))
            elif event == "topic changes" and self._reached(lambda: queries[0].isActive):
                self.change_topic(settings["topic"], settings["count"])
            self._go()
            self._await_end(queries[-1])
        finally:
            for query in queries:
                query.stop()
            self._go()

    def _await_end(self, query: StreamingQuery) -> None:
        if self._is_continuous:
            query.processAllAvailable()
        else:
            assert query.awaitTermination(_DEADLINE), f"not done within {_DEADLINE} s"

    def start(
        self,
        tasks: str = "as read",
        trigger: str = "availableNow",
        limit: int | None = None,
        share: int | None = None,
        fail: bool = True,
        event: str = "",
        at: int = 0,
        shared: bool = False,
        accept: bool = False,
        unordered: bool = False,
        more: str = "",
        **_: Any,
    ) -> StreamingQuery:
        """The query, started."""
        self._is_continuous = trigger == "processingTime"
        self._prepare(event)
        self._session.conf.set(_ADAPTIVE, str(tasks == "adaptive").lower())
        self._session.conf.set(_ARROW, "3" if more == "small Arrow batches" else "10000")
        given: dict[str, Any] = {"maxOffsetsPerTrigger": limit, "failOnDataLoss": str(fail).lower()}
        given |= _UNORDERED if unordered else {"minRecordsPerPartition": share}
        given |= _READ.get(more, {})
        read = {name: str(value) for name, value in given.items() if value is not None}
        rows = self._rows(read, tasks, ["timestamp"] if more == "timestamps" else [])
        if event and event != "function fails":
            rows = rows.mapInArrow(acting(event, str(self.home), at), rows.schema)
        self._accept(accept)
        sink = self._options(**{"kafka.transaction.timeout.ms": "15000"}, **_WRITE.get(more, {}))
        writing = rows.writeStream.option("checkpointLocation", str(self.checkpoint.directory))
        triggers: dict[str, Any] = {"processingTime": "0 seconds"} if self._is_continuous else {trigger: True}
        writing = writing.trigger(**triggers)
        if self.job["kind"] in ("sink", "column"):
            if self.writer is not None:
                sink["writer"] = f"{self.run}-{self.writer}"
            if self._accepted:
                sink["acceptReplayMismatch"] = self._accepted[-1]
            if self.job["kind"] == "sink":
                sink["topic"] = self.topics["out"]
            return writing.format(FORMAT).options(**sink).start()
        fails_at = at if event == "function fails" else None
        return writing.foreachBatch(self._function(sink, fails_at, shared)).start()

    def _accept(self, accept: bool) -> None:
        """``acceptReplayMismatch`` as the last error says it, and as those did before it, of other writes of the batch."""
        named = re.search(r"acceptReplayMismatch=(\S+)", self.last_error) if accept else None
        self._accepted = [*self._accepted, named.group(1)] if named else []

    def _rows(self, more: dict[str, str], tasks: str, others: list[str]) -> DataFrame:
        read = self._options(startingOffsets="earliest", **more)
        if self.job["reads"] == "pattern":
            read["subscribePattern"] = f"[ab]-{self.run}"
        else:
            read["subscribe"] = ",".join(self.topics[name] for name in self.sources)
        if self.job["headers"]:
            read["includeHeaders"] = "true"
        rows = self._session.readStream.format(FORMAT).options(**read).load()
        columns = ["key", "value", *(["headers"] if self.job["headers"] else []), *others]
        if self.job["kind"] in ("column", "batch column"):
            columns.append(f"if({HALF} = 0, '{self.topics['out']}', '{self.topics['out2']}') AS topic")
        rows = rows.selectExpr(*columns)
        how, _, number = tasks.partition(" ")
        if how == "repartition":
            return rows.repartition(int(number), "key")
        if how == "coalesce":
            return rows.coalesce(int(number))
        return rows.repartition("key") if how == "adaptive" else rows

    def _function(
        self, sink: dict[str, str], fails_at: int | None, shared: bool
    ) -> Callable[[DataFrame, int], None]:
        """What ``foreachBatch`` gets; it fails once, before its write number ``fails_at`` or behind the last."""
        faults = [] if fails_at is None else [fails_at]

        def fail_before(place: int) -> None:
            if place in faults:
                faults.remove(place)
                raise InjectedError(INJECTED)

        def write(frame: DataFrame, _: int) -> None:
            parts = self._parts(frame)
            for place, (rows, topic) in enumerate(parts):
                fail_before(place)
                more = {} if topic is None else {"topic": topic}
                if self.writer is not None:
                    more["writer"] = f"{self.run}-{self.writer}-{0 if shared else place}"
                    for option in self._accepted:
                        if option.startswith(f"{more['writer']}:"):
                            more["acceptReplayMismatch"] = option
                rows.write.format(FORMAT).mode("append").options(**sink, **more).save()
            fail_before(len(parts))

        return write

    def _parts(self, frame: DataFrame) -> list[tuple[DataFrame, str | None]]:
        out, out2 = self.topics["out"], self.topics["out2"]
        if self.job["kind"] == "each":
            _, _, *others = frame.columns
            marked = frame.selectExpr("key", "concat('b', CAST(value AS STRING)) AS value", *others)
            return [(frame, out), (marked, out)]
        if self.job["kind"] == "halves":
            return [(frame.where(f"{HALF} = {i}"), topic) for i, topic in enumerate((out, out2))]
        return [(frame, None if self.job["kind"] == "batch column" else out)]

    def _options(self, **more: str) -> dict[str, str]:
        servers = self.servers
        return {
            "kafka.bootstrap.servers": servers["bootstrap.servers"],
            "controller.url": servers["controller.url"],
            **more,
        }

    @property
    def _session(self) -> SparkSession:
        assert self.session is not None, "of a program that has one"
        return self.session

    # -- in the middle of it ------------------------------------------------------------------------------------

    def _prepare(self, event: str) -> None:
        for name in ("flag", "reached", "go"):
            (self.home / name).unlink(missing_ok=True)
        if event:
            (self.home / "flag").touch()

    def _reached(self, goes_on: Callable[[], bool]) -> bool:
        """Wait until a task stands at its place; False: the query has ended, or has nothing to do, before."""
        deadline = time.monotonic() + _DEADLINE
        while not (self.home / "reached").exists():
            if not goes_on():
                return False
            assert time.monotonic() < deadline, "neither a task at its place nor an end"
            time.sleep(0.02)
        return True

    def _go(self) -> None:
        (self.home / "go").touch()

    def _run_elsewhere(self, settings: dict[str, Any]) -> None:
        """A driver process that is killed with all it has started, or that runs beside this one with one checkpoint.

        One that comes to its end before a task of it stands at its place has run alone.
        """
        self._prepare("")
        processes = multiprocessing.get_context("spawn")
        ours, theirs = processes.Pipe()
        arguments = (theirs, self.servers, str(self.home), self.job, self.run, self.writer, settings)
        driver = processes.Process(target=drive, args=arguments, daemon=False)
        driver.start()
        theirs.close()
        beside, ended = settings["event"] == "another driver", ""
        try:
            is_there = self._reached(lambda: driver.is_alive() and not ours.poll())
            if beside and is_there:
                self._run_beside(settings, ours)
        finally:
            kill_tree(driver.pid or 0)
            driver.join()
        if beside and ours.poll():
            with suppress(EOFError):
                ended = ours.recv()
                if is_there:
                    self.tell("elsewhere", "ended", ended)
        if ended and not is_there:
            raise PySparkException(ended)

    def _run_beside(self, settings: dict[str, Any], other: Connection[Any, Any]) -> None:
        # Not prepared again: the other one's task waits for "go".
        home, self.home = self.home, self.home / "beside"
        self.home.mkdir(exist_ok=True)
        try:
            self._run_here({**settings, "event": ""})
        finally:
            self.home = home
            self._go()
            other.poll(_DEADLINE)

    # -- the checkpoint -----------------------------------------------------------------------------------------

    def delete_checkpoint(self, *, keep_writer: bool = False) -> None:
        """Delete the checkpoint, and its copies; the next run's writer has a new name unless the name is kept."""
        self.checkpoint.delete()
        if not keep_writer and self.writer is not None:
            self.rename_writer()

    def rename_writer(self, *, as_told: bool = False) -> None:
        """Another name, never used before; or the one that the last error said."""
        self.names += 1
        self.writer = f"w{self.names}"
        told = re.search(r"set the option writer to (\S+?),", self.last_error) if as_told else None
        if told:
            # The query's id is what it is named without the option.
            own = re.fullmatch(rf"{self.run}-(w\d+)", told.group(1))
            self.writer = own.group(1) if own else None


def drive(
    pipe: Connection[Any, Any],
    servers: dict[str, str],
    home: str,
    job: dict[str, Any],
    run: str,
    writer: str | None,
    settings: dict[str, Any],
) -> None:
    """A driver process: runs the query and sends its error, or an empty text."""
    use = SparkUse(servers, local_session(Path(home) / "spark"), Path(home), job, run=run)
    use.writer = writer
    query = use.start(**settings)
    try:
        query.awaitTermination()
        pipe.send("")
    except PySparkException as error:
        pipe.send(str(error))


def local_session(directory: Path) -> SparkSession:
    """A session with two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(directory))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _number(headers: list[dict[str, Any]] | None) -> str | None:
    return next((_decoded(one["value"]) for one in headers or [] if one["key"] == NUMBER), None)


def spark_from_environment(**job: Any) -> SparkUse:
    """On the servers of ``. .ordered-kafka/env.sh``."""
    home = Path(tempfile.mkdtemp(prefix="spark-program-"))
    servers = {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "controller.url": os.environ["ORDERED_KAFKA_CONTROLLER"],
    }
    use = SparkUse(servers, local_session(home / "warehouse"), home, job)
    use.make_topics()
    return use


@contextmanager
def query_errors() -> Iterator[None]:
    """Around a run that ended in an error when the program was found."""
    try:
        yield
    except PySparkException as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 - of a program that runs by itself
