"""Kafka as far as reassignments go: copying replicas, leaders, log directories, brokers that die; for the machine's test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.controller.reassign.machine import instructions as i
from spark_ordered_kafka.controller.reassign.machine.cluster_state import (
    ClusterState,
    Directories,
    Partition,
)
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import LocalReplica, PartitionId, Reassignment

PATHS = ("/a", "/b")
SECONDS_TO_COPY = 2.0


@dataclass
class Log:
    """A partition; ``target`` is that of the reassignment that goes on."""

    replicas: tuple[int, ...]
    isr: set[int]
    leader: int
    target: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    settled: list[tuple[int, ...]] = field(default_factory=list)
    copied: dict[int, float] = field(default_factory=dict)


class ModelKafka:
    """Brokers 1..n with two log directories each; time passes with :meth:`run`."""

    def __init__(self, brokers: int, logs: Mapping[PartitionId, tuple[int, ...]]) -> None:
        self.now = 1000.0
        self.alive = set(range(1, brokers + 1))
        self.known = frozenset(self.alive)
        self.offline: dict[int, set[str]] = {broker: set() for broker in self.alive}
        self.logs = {p: Log(r, set(r), r[0], settled=[r]) for p, r in logs.items()}
        self.held = {(p, b): PATHS[0] for p, r in logs.items() for b in r}
        self.futures: dict[tuple[PartitionId, int], tuple[str, float]] = {}
        self.preferred: dict[tuple[PartitionId, int], str] = {}
        self.late: list[tuple[float, i.Instruction]] = []
        self._history = [(self.now, self._partitions())]

    # -- what others see ----------------------------------------------------------------------------------------

    def partitions(self, lag: float) -> dict[PartitionId, Partition | None]:
        """As a broker describes them that is behind by ``lag`` seconds."""
        known = [rows for at, rows in self._history if at <= self.now - lag] or [self._history[0][1]]
        shown = self._partitions() if lag == 0 else known[-1]
        # Asked for after the reassignments were.
        return {tp: None if row is None else replace(row, at=self.now + 0.01) for tp, row in shown.items()}

    def cluster(
        self, partitions: Mapping[PartitionId, Partition | None], directories: Directories
    ) -> ClusterState:
        return ClusterState(
            at=self.now,
            alive=set(self.alive),
            ongoing={
                p: Reassignment(log.target, (), ()) for p, log in self.logs.items() if log.target is not None
            },
            partitions=partitions,
            directories=directories,
        )

    def directories(self) -> Directories:
        held: dict[tuple[str, int, int], LocalReplica] = {}
        for (tp, broker), path in self.held.items():
            if broker in self.alive and path not in self.offline[broker]:
                future = self.futures.get((tp, broker), (None, 0.0))[0]
                key = (*tp, broker)
                held[key] = LocalReplica(path, 100, future, 50 if future else 0)
        return Directories(
            self.now, frozenset(self.alive), held, {b: set(self.offline[b]) for b in self.alive}
        )

    def _partitions(self) -> dict[PartitionId, Partition | None]:
        return {
            p: Partition(self.now, "id", log.leader, log.replicas, tuple(log.isr))
            for p, log in self.logs.items()
        }

    # -- what is asked for --------------------------------------------------------------------------------------

    def ask(self, instruction: i.Instruction) -> OrderedKafkaError | None:
        match instruction:
            case i.Start(tp, replicas) | i.Restore(tp, replicas):
                return self.reassign(tp, replicas)
            case i.Withdraw(tp):
                return self.cancel(tp)
            case i.MoveToLogDir(tp, broker, path) | i.CancelLogDirMove(tp, broker, path):
                return self.move_dir(tp, broker, path)

    def reassign(self, tp: PartitionId, target: tuple[int, ...]) -> OrderedKafkaError | None:
        if not set(target) <= self.known:
            return RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker")
        log = self.logs[tp]
        self._revert(log)
        log.target = target
        log.adding = tuple(broker for broker in target if broker not in log.replicas)
        log.replicas = (*target, *(broker for broker in log.replicas if broker not in target))
        log.copied = dict.fromkeys(log.adding, 0.0)
        self._complete(tp, log)
        return None

    def cancel(self, tp: PartitionId) -> OrderedKafkaError | None:
        log = self.logs[tp]
        if log.target is None:
            return RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing goes on")
        self._revert(log)
        self._settle(tp, log)
        return None

    def move_dir(self, tp: PartitionId, broker: int, path: str) -> OrderedKafkaError | None:
        if broker not in self.alive:
            return RequestError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is down")
        if path not in PATHS:
            return RequestError(ErrorCode.LOG_DIR_NOT_FOUND, path)
        if path in self.offline[broker]:
            return RequestError(ErrorCode.KAFKA_STORAGE_ERROR, path)
        key = (tp, broker)
        if key not in self.held:
            self.preferred[key] = path
            return RequestError(ErrorCode.REPLICA_NOT_AVAILABLE, "no replica")
        if self.held[key] == path:
            self.futures.pop(key, None)
        elif self.futures.get(key, ("", 0.0))[0] != path:
            self.futures[key] = (path, 0.0)
        return None

    # -- what happens -------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.now += seconds
        for at, instruction in self.late:
            if at <= self.now:
                self.ask(instruction)
        self.late = [(at, instruction) for at, instruction in self.late if at > self.now]
        for tp, log in self.logs.items():
            for broker in log.adding:
                if broker not in self.alive or log.leader < 0:
                    continue
                if (tp, broker) not in self.held:
                    self.held[tp, broker] = self.preferred.pop((tp, broker), PATHS[0])
                if self.held[tp, broker] in self.offline[broker]:
                    continue
                log.copied[broker] = log.copied.get(broker, 0.0) + seconds
                if log.copied[broker] >= SECONDS_TO_COPY:
                    log.isr.add(broker)
            self._complete(tp, log)
            if log.leader >= 0:
                log.isr |= {b for b in log.replicas if b in self.alive and b not in log.adding}
        for key, (path, copied) in list(self.futures.items()):
            tp, broker = key
            if broker in self.alive and not {path, self.held[key]} & self.offline[broker]:
                self.futures[key] = (path, copied + seconds)
                if copied + seconds >= SECONDS_TO_COPY:
                    self.held[key] = path
                    del self.futures[key]
        self._history = [*self._history[-8:], (self.now, self._partitions())]

    def kill(self, broker: int) -> None:
        self.alive.discard(broker)
        self.preferred = {key: path for key, path in self.preferred.items() if key[1] != broker}
        self._elect()

    def revive(self, broker: int) -> None:
        self.alive.add(broker)
        self._elect()

    def _elect(self) -> None:
        for log in self.logs.values():
            left = log.isr & self.alive
            log.isr = left or log.isr
            if log.leader not in left:
                log.leader = next((b for b in log.replicas if b in left), -1)

    def _revert(self, log: Log) -> None:
        log.replicas = tuple(b for b in log.replicas if b not in log.adding)
        log.isr = {b for b in log.isr if b in log.replicas} or set(log.replicas[:1])
        log.target, log.adding = None, ()
        self._elect()

    def _complete(self, tp: PartitionId, log: Log) -> None:
        if log.target is not None and set(log.adding) <= log.isr and log.isr & set(log.target):
            log.replicas, log.target, log.adding = log.target, None, ()
            log.isr &= set(log.replicas)
            self._settle(tp, log)
            self._elect()

    def _settle(self, tp: PartitionId, log: Log) -> None:
        log.settled.append(log.replicas)
        for key in [key for key in self.held if key[0] == tp and key[1] not in log.replicas]:
            self.held.pop(key)
            self.futures.pop(key, None)
