"""Does to a cluster what :mod:`tests.nemesis.plan` says."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.nemesis.cluster import Cluster
from tests.nemesis.journal import Journal
from tests.nemesis.network import Network, Rule
from tests.nemesis.nodes import Node
from tests.nemesis.plan import LEADER, UNSAFE, Fault, Round
from tests.nemesis.watch import await_quietly
from tests.quotas import limit

Undo = Callable[[], None]
_FILLER = "filler"
_PATIENCE = 45.0
"""Seconds for replicas to be in sync before a broker is taken away. Where a partition has no leader for a moment, Kafka 4.3
takes it for deleted and drops the end of its transactions, which then hang for ever: no fault of this package."""
_ELECTION = 30.0
"""Seconds for a follower to be taken for out of sync, and for another leader to be elected."""
_BLOCK = b"\0" * 2**20


class Nemesis:
    """Carries out rounds, one after another.

    ``clients``: also what runs tasks for them. ``checkpoints``: the file systems of queries' checkpoints, by driver.
    ``quietly(True)`` is called when a quiet rest begins, ``quietly(False)`` when it ends.
    """

    def __init__(
        self,
        cluster: Cluster,
        clients: Mapping[str, Node],
        network: Network,
        journal: Journal,
        checkpoints: Mapping[str, Path],
        quietly: Callable[[bool], None],
    ) -> None:
        self._cluster = cluster
        self._nodes = {**cluster.nodes, **clients}
        self._clients = clients
        self._network = network
        self._journal = journal
        self._checkpoints = checkpoints
        self._quietly = quietly

    def _kinds(self, fault: Fault) -> set[str]:
        """Kinds of Kafka's servers of which it may take one away from other servers."""
        named = ["broker" if name == UNSAFE else name for name in (fault.target, fault.other or "")]
        if fault.kind in {"cut", "one-way cut", "delay", "loss"} and any(
            name in self._clients for name in named
        ):
            return set()
        return {kind for kind in ("broker", "kraft") if any(name.startswith(kind) for name in named)}

    def _obstacle(self, fault: Fault, begun: Iterable[Fault]) -> str | None:
        """Why Kafka would not keep its own promises under this fault, beside those that have begun (D-491)."""
        kinds = self._kinds(fault)
        if not kinds:
            return None
        others = set[str]().union(*map(self._kinds, begun))
        if others and len(kinds | others) > 1:
            return "a broker might start while no KRaft controller answers"
        return None if self._cluster.await_in_sync(_PATIENCE) else "replicas are out of sync"

    def run(self, rounds: Iterable[Round], deadline: float) -> int:
        """Until then on the monotonic clock; the number of faults."""
        count = 0
        for one in rounds:
            if time.monotonic() >= deadline:
                break
            self._round(one)
            count += len(one.faults)
            self._rest(min(one.rest, deadline - time.monotonic()), one.quiet)
        return count

    def _rest(self, seconds: float, quiet: bool) -> None:
        if seconds <= 0:
            return
        if quiet:
            self._quietly(True)
        time.sleep(seconds)
        if quiet:
            self._quietly(False)

    def _round(self, one: Round) -> None:
        undone: list[tuple[Fault, str, Undo]] = []
        for fault in one.faults:
            obstacle = self._obstacle(fault, [one for one, *_ in undone])
            if obstacle is not None:
                self._journal.note("skipped", kind=fault.kind, target=fault.target, why=obstacle)
                continue
            target = (
                (self._cluster.leader() or self._cluster.names("controller")[0])
                if fault.target == LEADER
                else fault.target
            )
            undone.append((fault, target, self._do(fault, target)))
        begun = time.monotonic()
        for fault, target, undo in sorted(undone, key=lambda what: what[0].seconds):
            time.sleep(max(0.0, begun + fault.seconds - time.monotonic()))
            undo()
            self._journal.note("healed", kind=fault.kind, target=target, other=fault.other)

    def _do(self, fault: Fault, target: str) -> Undo:
        self._journal.note(
            "fault",
            kind=fault.kind,
            target=target,
            other=fault.other,
            seconds=fault.seconds,
            amount=fault.amount,
        )
        match fault.kind:
            case "kill":
                self._nodes[target].kill()
                return self._nodes[target].start
            case "outage":
                return self._outage(target, int(fault.amount))
            case "restart":
                self._nodes[target].stop()
                return self._nodes[target].start
            case "pause":
                self._nodes[target].pause()
                return self._nodes[target].resume
            case "replace":
                return self._replace(target)
            case "roll":
                self._roll(target)
                return lambda: None
            case "log dir":
                return self._fail_directory(target)
            case "full disk":
                return self._fill_disk(target)
            case "full checkpoint":
                filler = self._checkpoints[target] / _FILLER
                _fill(filler)
                return filler.unlink
            case "clock":
                return self._set_clock(target, fault.amount)
            case "unclean election":
                return self._lose_records(fault)
            case "quota":
                limit(self._cluster.kafka(), target, fault.amount)
                return lambda: limit(self._cluster.kafka(), target, None)
        self._network.disturb(fault, self._rules(fault, target))
        return lambda: self._network.heal(fault)

    def _rules(self, fault: Fault, target: str) -> list[Rule]:
        match fault.kind:
            case "one-way cut":
                return [Rule(target, fault.other or "", loss=1.0)]
            case "cut":
                return _both(target, [fault.other or ""], loss=1.0)
            case "loss":
                return _both(target, [fault.other or ""], loss=fault.amount)
            case "delay":
                return _both(target, [fault.other or ""], delay=fault.amount)
            case "expire":
                return _both(target, self._cluster.names("zookeeper"), loss=1.0)
            case "isolate":
                return _both(target, {*self._nodes} - {target}, loss=1.0)
        raise ValueError(fault.kind)

    def _of(self, kind: str) -> Sequence[str]:
        return self._cluster.names(kind.removesuffix("s"))

    def _outage(self, kind: str, left: int) -> Undo:
        """Kill all of a kind at once, but of brokers the one that is ``left``: see ``_PATIENCE``."""
        nodes = [
            self._nodes[name]
            for number, name in enumerate(self._of(kind))
            if kind != "brokers" or number != left
        ]
        for node in nodes:
            node.kill()

        def undo() -> None:
            for node in nodes:
                node.start()

        return undo

    def _replace(self, client: str) -> Undo:
        self._nodes[client].replace()

        def undo() -> None:
            # Without an answer of the group's coordinator it takes its place back (D-501).
            self._cluster.await_in_sync(_PATIENCE)
            self._nodes[client].resume_former()

        return undo

    def _roll(self, kind: str) -> None:
        """SIGTERM and start, one after another, each when the one before it serves again."""
        for name in self._of(kind):
            if kind == "brokers" and not self._cluster.await_in_sync(_PATIENCE):
                self._journal.note("skipped", kind="roll", target=name, why="replicas are out of sync")
                return
            self._nodes[name].stop()
            self._nodes[name].start()
            if kind == "controllers":
                self._cluster.wait_for(
                    lambda: self._cluster.leader() is not None, "a leader while controllers are restarted"
                )
            else:
                time.sleep(4.0)

    def _set_clock(self, controller: str, seconds: float) -> Undo:
        """Start the controller again with a wrong clock; and again with the right one."""

        def start(ahead: float) -> None:
            self._nodes[controller].stop()
            self._cluster.set_clock(controller, ahead)
            self._nodes[controller].start()

        start(seconds)
        return lambda: start(0)

    def _fail_directory(self, broker: str) -> Undo:
        """What is to be made in the first log directory fails; the broker takes it for failed, until it is started again.

        It is killed for that: with a failed directory Kafka's brokers often do not end by SIGTERM within a minute.
        """
        path, other = (self._cluster.log_dir(broker, number) for number in (1, 2))
        aside = path.with_name("aside")
        path.rename(aside)
        path.touch()

        def undo() -> None:
            self._nodes[broker].kill()
            path.unlink()
            # A broker does not start with a replica in both, and says to delete the one that failed.
            for replica in [one for one in aside.iterdir() if one.is_dir() and (other / one.name).is_dir()]:
                shutil.rmtree(replica)
            aside.rename(path)
            self._nodes[broker].start()

        return undo

    def _fill_disk(self, broker: str) -> Undo:
        """The file system of the second log directory is full."""
        filler = self._cluster.log_dir(broker, 2) / _FILLER
        _fill(filler)

        def undo() -> None:
            self._nodes[broker].kill()
            filler.unlink()
            self._nodes[broker].start()

        return undo

    def _lose_records(self, fault: Fault) -> Undo:
        """The leader of a partition writes alone. Then it dies, and the one replica that lacks what it wrote becomes leader.

        That one is cut off from the leader alone, and lives: so the partition has a leader all the time (``_PATIENCE``).
        """
        partition = int(fault.amount)
        before = self._cluster.replicas(UNSAFE, partition)
        old, (new,) = before.leader, before.followers
        self._network.disturb(fault, _both(old, [new], loss=1.0))
        await_quietly(lambda: self._cluster.replicas(UNSAFE, partition).in_sync == {old}, _ELECTION)

        def undo() -> None:
            self._nodes[old].kill()
            self._network.heal(fault)
            elected = await_quietly(
                lambda: self._cluster.replicas(UNSAFE, partition).leader == new, _ELECTION
            )
            self._journal.note("elected", partition=partition, leader=new, instead_of=old, in_time=elected)
            self._nodes[old].start()

        return undo


def _both(target: str, others: Iterable[str], loss: float = 0.0, delay: float = 0.0) -> list[Rule]:
    pairs = [(target, other) for other in others]
    return [Rule(*way, loss, delay) for one, other in pairs for way in ((one, other), (other, one))]


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
