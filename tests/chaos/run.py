"""Runs a history against real servers and judges what came of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    FinishedChangeView,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from tests.chaos.history import Break, Change, Delete, Die, History, Poll, Start, Write
from tests.chaos.outcome import ChaosError, Summary, sorted_ids, stacks
from tests.chaos.readers import ReaderDiedError, Row, StreamDriver, batch_read, verdict
from tests.chaos.servers import PATIENCE, ChaosCluster, paused
from tests.chaos.topic_log import TopicLog
from tests.chaos.writers import ChaosWriter, RecordId
from tests.servers import unique_name
from tests.streams import options


@dataclass
class _Reader:
    """A reader and what it cannot deliver any more: ``lost`` was deleted ahead of it, ``either`` while in flight."""

    driver: StreamDriver
    lost: set[RecordId] = field(default_factory=set)
    either: set[RecordId] = field(default_factory=set)


def run(cluster: ChaosCluster, history: History) -> Summary:
    """Run ``history`` on a topic of its own. Raises ChaosError when a promise is broken."""
    running = _Run(cluster, history)
    try:
        return running.run()
    except Exception as error:
        raise ChaosError(
            f"seed {history.seed}: {type(error).__name__}: {error}\n"
            f"run it again: CHAOS_SEED={history.seed} pytest tests/chaos -k seed\n"
            f"{history.partitions} partitions, {history.writers} writers, {history.keys} keys,"
            f" {'failOnDataLoss=false' if history.lossy else 'failOnDataLoss=true'}, topic {running.topic}\n"
            + "\n".join(running.trace)
        ) from error
    finally:
        running.close()


class _Run:
    def __init__(self, cluster: ChaosCluster, history: History) -> None:
        self.topic = unique_name(f"seed-{history.seed}")
        self.trace: list[str] = []
        self._cluster = cluster
        self._history = history
        self._started = time.monotonic()
        self._rng = random.Random(f"run/{history.seed}")
        self._client = ControllerClient(cluster.controller_url)
        self._writers = [
            # What waits for a controller that comes back waits for as long as anything may take here.
            ChaosWriter(
                cluster,
                self.topic,
                keys=history.keys,
                name=f"w{number}",
                seed=str(history.seed),
                timeout=PATIENCE,
            )
            for number in range(history.writers)
        ]
        # One thread each: a writer's actions happen one after another, those of several at the same time.
        self._threads = [
            ThreadPoolExecutor(1, f"{self.topic}-writer-{number}") for number in range(history.writers)
        ]
        self._pending: list[tuple[int, Future[None]]] = []
        self._readers: list[_Reader] = []
        self._change: Change | None = None
        self._outcomes: Counter[str] = Counter()
        self._faults: list[str] = []
        self._log = TopicLog(cluster, self.topic)

    def run(self) -> Summary:
        """The actions, then what must come of them."""
        # The last history may have left the controllers in an election.
        self._cluster.await_controller()
        request = CreateTopicRequest(
            topic=self.topic, partitions=self._history.partitions, **self._cluster.replication
        )
        self._cluster.retried(lambda: self._client.create_topic(request))
        for action in self._history.actions:
            self._do(action)
        self._await_change()
        for number, writer in enumerate(self._writers):
            self._submit(number, writer.settle)
        self._await_writers()
        self._cluster.ensure_controllers()
        self._cluster.await_controller()
        written = [record for writer in self._writers for record in writer.committed]
        self._log.look()
        self._log.check(written)
        for number, reader in enumerate(self._readers):
            self._judge_stream(number, reader)
        self._judge_batch()
        return self._summary(len(written))

    def close(self) -> None:
        """Release everything; the servers run again."""
        for thread in self._threads:
            thread.shutdown(wait=True)
        for reader in self._readers:
            reader.driver.close()
        self._client.close()
        self._cluster.ensure_controllers()

    def _note(self, text: str) -> None:
        self.trace.append(f"{time.monotonic() - self._started:8.3f} {text}")

    # -- actions ------------------------------------------------------------------------------------------------

    def _do(self, action: object) -> None:
        match action:
            case Write(writer, transactions, rows, wait):
                future = self._submit(writer, lambda: self._write(writer, transactions, rows))
                if wait:
                    self._result(writer, future)
            case Die(writer, rows, how):
                self._result(writer, self._submit(writer, lambda: self._die(writer, rows, how)))
            case Change():
                self._begin_change(action)
                if action.wait:
                    self._await_change()
            case Start(starting, limit):
                self._start_reader(starting, limit)
            case Poll(reader, batches, crash):
                for last in (False,) * (batches - 1) + (True,):
                    if not self._poll(reader, crash if last else None):
                        break
            case Delete(share, beyond):
                self._delete(share, beyond)
            case Break():
                self._break(action)
            case _:
                raise TypeError(f"no such action: {action!r}")

    def _submit(self, writer: int, call: Callable[[], None]) -> Future[None]:
        future = self._threads[writer].submit(call)
        self._pending.append((writer, future))
        return future

    def _result(self, writer: int, future: Future[None]) -> None:
        # A writer's own error says more than that it does not end.
        seconds = 3 * PATIENCE
        try:
            future.result(seconds)
        except FutureTimeoutError:
            raise AssertionError(
                f"writer {writer} does not end within {seconds:g} s; {self._client.change(self.topic)};"
                f" it stands at\n{stacks(f'{self.topic}-writer-{writer}_')}"
            ) from None

    def _await_writers(self) -> None:
        for writer, future in self._pending:
            self._result(writer, future)
        self._pending.clear()

    def _write(self, number: int, transactions: int, rows: int) -> None:
        writer = self._writers[number]
        before, replays = writer.written, writer.replays
        for _ in range(transactions):
            writer.transaction(rows)
        self._note(
            f"writer {number} committed {writer.written - before} rows in {transactions} transactions,"
            f" {writer.replays - replays} of them sent again"
        )

    def _die(self, number: int, rows: int, how: str) -> None:
        self._writers[number].die(rows, how)  # type: ignore[arg-type]
        self._note(f"writer {number} died: {how}")

    def _break(self, action: Break) -> None:
        self._faults.append(action.fault)
        cluster, (verb, server) = self._cluster, action.fault.split()
        name = {"broker": f"broker-{action.broker}", "zookeeper": "zookeeper-1"}.get(server)
        self._note(f"{action.fault} {action.seconds or ''}")
        if name is None:
            controller = cluster.await_controller()
            if verb == "kill":
                controller.kill()
                cluster.ensure_controllers()
            else:
                with paused(controller.pause, controller.resume):
                    time.sleep(action.seconds)  # how long the fault lasts
        elif action.fault == "kill broker" and cluster.is_single_broker:
            self._await_change()
            self._await_writers()
            cluster.await_markers(f"ordered:{self.topic}:")
            cluster.kill(name)
            # What comes next meets a broker that is not back yet.
            cluster.start(name, wait=False)
        elif verb == "kill":
            cluster.kill(name)
            cluster.start(name)
        else:
            with paused(lambda: cluster.pause(name), lambda: cluster.resume(name)):
                time.sleep(action.seconds)  # as above
        self._note(f"{server} is back")

    # -- changes ------------------------------------------------------------------------------------------------

    def _begin_change(self, action: Change) -> None:
        self._await_change()
        count = self._cluster.retried(lambda: self._client.topic(self.topic)).undeleted_partition_count
        if count == action.target:
            self._note(f"no change: {count} partitions already")
            return
        if action.crash is not None:
            self._faults.append(f"controller dies before {action.crash}")
            self._cluster.await_controller().armed.write_text(action.crash)
        self._change = action
        self._cluster.retried(lambda: self._request(action.target))
        self._note(f"change {count} -> {action.target} begins, {action}")
        if action.cancel:
            self._cancel()

    def _request(self, target: int) -> None:
        request = PartitionCountsRequest(
            topics=[TopicPartitionCount(topic=self.topic, partition_count=target)]
        )
        (result,) = self._client.alter_partition_counts(request).topics
        # Both mean that an earlier request of which no answer came was carried out.
        if result.error not in ("NONE", "PARTITION_CHANGE_IN_PROGRESS", "INVALID_PARTITIONS"):
            raise RequestError(ErrorCode(result.error_code), str(result.error_message))

    def _cancel(self) -> None:
        try:
            self._cluster.retried(lambda: self._client.cancel_change(self.topic))
        except RequestError as error:
            self._note(f"cancelled too late: {error}")

    def _await_change(self) -> None:
        if self._change is None:
            return
        action, self._change = self._change, None
        deadline = time.monotonic() + PATIENCE
        while True:
            self._cluster.ensure_controllers()
            answer = self._cluster.retried(lambda: self._client.change(self.topic))
            if answer.change is None and answer.last_change is not None:
                break
            assert time.monotonic() < deadline, f"the change does not end: {answer}"
            time.sleep(0.02)
        for controller in self._cluster.controllers:
            controller.armed.unlink(missing_ok=True)
        self._check_outcome(action, answer.last_change)

    def _check_outcome(self, action: Change, ended: FinishedChangeView) -> None:
        starts = self._cluster.retried(lambda: self._client.layout(self.topic)).layouts[-1].starts
        self._note(
            f"change {ended.source} -> {ended.target} {ended.outcome}, {ended.fenced} fenced: {starts}"
        )
        assert ended.target == action.target, (ended, action)
        allowed = {"done"}
        if action.cancel:
            allowed.add("cancelled")
        if "kill broker" in self._faults and ended.error and ended.error.error == "REQUEST_TIMED_OUT":
            allowed.add("failed")
        assert ended.outcome in allowed, ended
        self._outcomes[ended.outcome] += 1

    # -- readers ------------------------------------------------------------------------------------------------

    def _start_reader(self, starting: str, limit: int | None) -> None:
        more = {} if limit is None else {"maxOffsetsPerTrigger": limit}
        settings = options(
            self._cluster,
            subscribe=self.topic,
            startingOffsets=starting,
            failOnDataLoss=str(not self._history.lossy).lower(),
            **more,
        )
        driver = self._cluster.retried(lambda: StreamDriver(settings, self._rng, self._log.begin))
        self._readers.append(_Reader(driver))
        self._note(
            f"reader {len(self._readers) - 1} starts at {starting} {driver.initial}, limit {limit or 'none'}"
        )

    def _poll(self, number: int, crash: object) -> bool:
        driver = self._readers[number].driver
        before = len(driver.delivered)
        try:
            went_on = driver.micro_batch(crash)  # type: ignore[arg-type]
        except ReaderDiedError:
            self._note(f"reader {number} died: {crash}; at {driver.positions}, planned {driver.planned}")
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            self._note(f"reader {number} failed and starts again: {error}")
        else:
            self._note(
                f"reader {number} took {len(driver.delivered) - before} rows to {driver.positions}"
                if went_on
                else f"reader {number} found nothing new"
            )
            return went_on
        driver.restart()
        return False

    # -- retention ----------------------------------------------------------------------------------------------

    def _delete(self, share: float, beyond: bool) -> None:
        self._await_change()
        ends = self._log.look()
        targets = {}
        for partition, end in ends.items():
            until = end
            if not beyond:
                until = min(_at(reader.driver.positions, partition) for reader in self._readers)
            gone = self._log.begin(partition)
            if until > gone:
                targets[partition] = gone + max(1, int(share * (until - gone)))
        self._account(targets)
        self._log.delete(targets)
        self._note(f"deleted {'beyond the readers ' if beyond else ''}up to {targets}")

    def _account(self, targets: dict[int, int]) -> None:
        """What every reader has not delivered and will not find any more."""
        doomed = {
            record: (partition, offset)
            for record, (partition, offset) in self._log.where.items()
            if self._log.begin(partition) <= offset < targets.get(partition, 0)
        }
        for reader in self._readers:
            positions, in_flight = reader.driver.positions, reader.driver.in_flight
            ahead = {record for record, (p, offset) in doomed.items() if offset >= _at(positions, p)}
            reader.either |= ahead & in_flight
            reader.lost |= ahead - in_flight

    # -- judgement ----------------------------------------------------------------------------------------------

    def _judge_stream(self, number: int, reader: _Reader) -> None:
        """After it has caught up, the reader has delivered all that was not deleted ahead of it, in order."""
        driver = reader.driver
        promised = {r for r, (p, offset) in self._log.where.items() if offset >= _at(driver.initial, p)}
        due = promised - reader.lost - reader.either
        deadline = time.monotonic() + PATIENCE
        while self._poll(number, None) or not due <= {row.record for row in driver.delivered}:
            assert time.monotonic() < deadline, (
                f"reader {number} stands still at {driver.positions}:"
                f" lacks {sorted_ids(due - {row.record for row in driver.delivered})}"
            )
            time.sleep(0.02)
        self._judge_rows(f"reader {number}", driver.delivered, due, reader.either)

    def _judge_batch(self) -> None:
        """A batch read delivers what is left in the log, in order."""
        left = {record for record, (p, offset) in self._log.where.items() if offset >= self._log.begin(p)}
        settings = options(self._cluster, subscribe=self.topic)
        rows = self._cluster.retried(lambda: batch_read(settings, self._rng))
        self._judge_rows("the batch read", rows, left, set())

    def _judge_rows(self, who: str, rows: list[Row], due: set[RecordId], either: set[RecordId]) -> None:
        found = {row.record for row in rows}
        expected = len(due) + len(either & found)
        report = verdict(rows, expected)
        assert report.violations == 0, f"{who}: {report}"
        assert found == due | (either & found), f"{who}: also delivered {sorted_ids(found - due - either)}"
        by_offset = verdict(sorted(rows, key=lambda row: (row.epoch, row.offset)), expected)
        assert by_offset.violations == 0, f"{who}, by (layout_epoch, offset): {by_offset}"
        for row in rows:
            assert self._log.where[row.record] == (row.partition, row.offset), f"{who}: {row}"

    def _summary(self, written: int) -> Summary:
        drivers = [reader.driver for reader in self._readers]
        return Summary(
            self._history.seed,
            time.monotonic() - self._started,
            written,
            sum(len(driver.delivered) for driver in drivers),
            self._outcomes["done"],
            sum(driver.batches for driver in drivers),
            sum(driver.replayed for driver in drivers),
            sum(writer.deaths for writer in self._writers),
            sum(offset < self._log.begin(p) for p, offset in self._log.where.values()),
            sum(len(reader.lost) for reader in self._readers),
            tuple(self._faults),
        )


def _at(positions: list[int], partition: int) -> int:
    return positions[partition] if partition < len(positions) else 0
