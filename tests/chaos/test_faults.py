"""Faults at chosen moments that random histories meet too seldom, and proof that the judge would notice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.change.protocol import Instruction
from spark_ordered_kafka.kafka import producer
from spark_ordered_kafka.spark import stream
from tests.chaos.history import Action, Break, Change, Die, History, Poll, Start, Write
from tests.chaos.outcome import ChaosError
from tests.chaos.run import run
from tests.chaos.servers import ChaosCluster
from tests.inside import jobs_of, session_of
from tests.integration.controllers import Hold, InProcess, in_process
from tests.servers import TIMEOUT, unique_name


def _history(*actions: Action, partitions: int = 1, writers: int = 1) -> History:
    return History(0, partitions, writers, keys=20, lossy=False, actions=actions)


def test_a_client_finds_the_active_controller_whatever_the_order_of_urls(chaos_cluster: ChaosCluster) -> None:
    chaos_cluster.ensure_controllers()
    active = chaos_cluster.await_controller().url
    standby = next(other.url for other in chaos_cluster.controllers if other.url != active)
    for urls in ((active, standby), (standby, active)):
        with ControllerClient(urls) as client:
            client.topics()
            client.topics()


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(p.ListTransactions, marks=pytest.mark.long),
        p.Fence,
        pytest.param(p.CommitLayout, marks=pytest.mark.long),
    ],
)
def test_a_controller_whose_session_is_lost_in_mid_change_harms_nobody(
    chaos_cluster: ChaosCluster, kind: type[Instruction]
) -> None:
    """Its successor ends the change; what it still does after that changes nothing."""
    chroot = unique_name("lost")
    with (
        in_process(chaos_cluster, chroot=chroot) as first,
        in_process(chaos_cluster, chroot=chroot, await_active=False) as second,
        Hold(kind) as hold,
    ):
        topic = first.create(2)
        first.before = hold
        first.alter(topic, 4, wait=False)
        hold.await_reached()
        _expire_session(chaos_cluster, first)
        _await(lambda: second.service.active, "the successor's claim")
        assert second.await_end(topic).outcome == "done"
        layouts = second.layout(topic).layouts
        # The deposed controller goes on where it stood.
        threads = [thread for _, thread in jobs_of(first.service).values()]
        hold.release()
        for thread in threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive(), "the deposed controller's change does not end"
        assert second.layout(topic).layouts == layouts
        assert [one.undeleted_partition_count for one in layouts] == [2, 4]
        assert second.http.get(f"/v1/topics/{topic}/layout?writer=true").status_code == 200
        assert second.alter(topic, 3).error == "NONE"


def _expire_session(cluster: ChaosCluster, controller: InProcess) -> None:
    """End its session as ZooKeeper's own tests do: by a second connection that takes it over and closes it."""
    client = KazooClient(cluster.zookeeper, client_id=session_of(controller.service).client.client_id)
    client.start(TIMEOUT)
    client.stop()
    client.close()
    _await(lambda: not controller.service.active, "the end of the session")


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {TIMEOUT:g} s"
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_broker_dies_while_a_change_is_closing(tmp_path: Path) -> None:
    """Three brokers; the change is a shrink, which begins with closing, and open transactions hold it there."""
    actions: list[Action] = [Start("earliest", 60), Change(5, wait=True)]
    actions += [Write(writer, 1, 40, wait=True) for writer in range(3)]
    actions += [Die(writer, 30, "flushed") for writer in range(3)]
    actions += [Change(3, wait=False), Break("kill broker", broker=2), Poll(0, 3)]
    with ChaosCluster(tmp_path, brokers=3) as cluster:
        summary = run(cluster, _history(*actions, partitions=2, writers=3))
    assert (summary.changes, summary.deaths) == (2, 3)


@pytest.mark.long
def test_all_go_on_after_the_only_broker_died(chaos_cluster: ChaosCluster) -> None:
    """Producers that were idle, readers and a change meet a broker that is not back yet, with other leader epochs."""
    actions: list[Action] = [Start("earliest", 60), Write(0, 2, 40, wait=True), Write(1, 2, 40, wait=True)]
    actions += [Change(3, wait=True), Write(0, 1, 40, wait=True), Break("kill broker"), Change(5, wait=False)]
    actions += [Write(0, 2, 40, wait=True), Write(1, 2, 40, wait=False), Poll(0, 3)]
    assert run(chaos_cluster, _history(*actions, writers=2)).changes == 2


@pytest.mark.long
def test_a_reader_without_a_gate_is_found_out(
    chaos_cluster: ChaosCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "readable", lambda _history, _positions, ends: dict(ends))
    growing = [action for count in (2, 4, 3) for action in (Write(0, 2, 120, True), Change(count, True))]
    with pytest.raises(ChaosError, match=r"out_of_order=[1-9]"):
        run(chaos_cluster, _history(Start("earliest", 25), *growing, Write(0, 2, 120, True)))


def test_a_writer_without_a_ledger_is_found_out(
    chaos_cluster: ChaosCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "read_entry", lambda *_: None)
    with pytest.raises(ChaosError, match="was written twice"):
        run(chaos_cluster, _history(Start("earliest", None), Die(0, 30, "committed"), Write(0, 1, 30, True)))
