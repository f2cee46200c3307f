"""Reassignments that are cancelled, interfered with, or lose their controller, a broker or a log directory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.settings import ReassignSettings
from spark_ordered_kafka.controller.zk.session import CONTROLLER_EPOCH
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import in_process
from tests.integration.reassigning import PACE, SIZE, SLOW, Judge, Mover, Row, cleaned, outcomes
from tests.servers import TIMEOUT, await_true, unique_name

# Two partitions at a time of each broker, so that others wait.
SETTINGS = ReassignSettings(max_moves_per_broker=2, broker_timeout=5.0)
FAST = 50_000_000
"""Bytes per second: a throttle that is set, and holds nothing up."""


@pytest.fixture(scope="module")
def mover(three_brokers: LocalCluster) -> Iterator[Mover]:
    with in_process(three_brokers, reassign=SETTINGS) as controller, cleaned(Mover(controller)) as mover:
        yield mover


# -- cancelled ----------------------------------------------------------------------------------------------------


def test_a_cancel_takes_back_what_moves_and_what_waits_and_leaves_what_is_done(
    mover: Mover, judge: Judge
) -> None:
    topic = judge.create([1, 2], [1, 3], [1, 2], [1, 2], size=SIZE)
    rows = [Row(topic, 0, [2, 1]), Row(topic, 1, [2, 3]), Row(topic, 2, [3, 2]), Row(topic, 3, [3, 2])]
    request = mover.submit(*rows, throttle=PACE)
    mover.moving(request)
    view = mover.until(request, lambda view: view.done == 1, "the partition that only changes its order")
    assert (view.moving, view.waiting) == (2, 1)
    mover.cancel(request)
    view = mover.ended(request)
    assert (view.state, view.done, view.cancelled, view.failed) == ("cancelled", 1, 3, 0)
    assert outcomes(view) == {
        (0, 2): "NONE",
        (1, 2): "OPERATION_NOT_ATTEMPTED",
        (2, 3): "OPERATION_NOT_ATTEMPTED",
        (3, 3): "OPERATION_NOT_ATTEMPTED",
    }
    assert judge.ongoing(topic) == {}
    judge.await_replicas(topic, [(2, 1), (1, 3), (1, 2), (1, 2)])
    await_true(lambda: judge.throttles(topic) == {}, "no throttle is left of what was cancelled")


@pytest.mark.long
def test_a_cancelled_increase_of_the_replication_factor_leaves_the_replicas_of_before(
    mover: Mover, judge: Judge
) -> None:
    topic = judge.create([1, 2], size=SIZE)
    row = Row(topic, 0, [3, 2, 1])
    request = mover.submit(row, throttle=PACE, allow_replication_factor_change=True)
    mover.moving(request)
    assert judge.ongoing(topic) == {0: (3,)}
    mover.cancel(request)
    assert mover.ended(request).state == "cancelled"
    assert judge.ongoing(topic) == {}
    # In their order, too: Kafka itself would leave that of the target.
    judge.await_replicas(topic, [(1, 2)])


def test_a_cancelled_move_between_log_directories_leaves_no_copy(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], size=SIZE)
    here, there = judge.where(topic, 0, 1)[0], judge.other(topic, 0, 1)
    request = mover.submit(Row(topic, 0, [1], [there]), replica_alter_log_dirs_throttle=PACE)
    await_true(lambda: judge.where(topic, 0, 1) == (here, there), "a temporary replica")
    mover.cancel(request)
    view = mover.ended(request)
    assert outcomes(view) == {(0, 1): "OPERATION_NOT_ATTEMPTED"}
    assert judge.where(topic, 0, 1) == (here, None)


# -- interfered with ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_somebody_else_cancels_or_deletes_fails_and_the_rest_goes_on(mover: Mover, judge: Judge) -> None:
    stopped, deleted, other = (
        judge.create([1], size=SIZE),
        judge.create([2], size=SIZE),
        judge.create([2], size=SIZE),
    )
    rows = [Row(stopped, 0, [3]), Row(deleted, 0, [3]), Row(other, 0, [1])]
    request = mover.submit(*rows, throttle=PACE)
    mover.until(request, lambda view: view.moving == 3, "all on their way")
    await_true(lambda: judge.ongoing(stopped) == {0: (3,)}, "the reassignment in Kafka")
    assert judge.reassignments.alter({(stopped, 0): None}) == {}
    judge.delete(deleted)
    view = mover.until(request, lambda view: view.failed == 2, "notice of both")
    assert {row.topic: row.error for row in view.replicas} == {
        stopped: "NO_REASSIGNMENT_IN_PROGRESS",
        deleted: "UNKNOWN_TOPIC_OR_PARTITION",
        other: "REASSIGNMENT_IN_PROGRESS",
    }
    mover.throttle(request, throttle=None)
    view = mover.ended(request)
    assert (view.state, view.done, view.failed) == ("failed", 1, 2)
    judge.await_replicas(stopped, [(1,)])
    judge.await_replicas(other, [(1,)])


def test_what_somebody_else_reassigns_meanwhile_is_theirs(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1], size=SIZE)
    request = mover.submit(Row(topic, 0, [2]), Row(topic, 1, [2]), throttle=PACE)
    mover.moving(request)
    theirs = {(topic, 0): [3], (topic, 1): [3]}
    assert judge.reassignments.alter(theirs) == {}
    view = mover.ended(request)
    assert outcomes(view) == dict.fromkeys([(0, 2), (1, 2)], "REASSIGNMENT_IN_PROGRESS")
    assert all("somebody else reassigns" in (row.error_message or "") for row in view.replicas)
    judge.await_replicas(topic, [(3,), (3,)])


@pytest.mark.long
def test_a_copy_between_log_directories_that_somebody_else_ends_fails(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], size=SIZE)
    here, there = judge.where(topic, 0, 1)[0], judge.other(topic, 0, 1)
    assert here is not None
    request = mover.submit(Row(topic, 0, [1], [there]), replica_alter_log_dirs_throttle=PACE)
    mover.moving(request)
    assert judge.dirs.alter({(topic, 0, 1): here}) == {}
    assert outcomes(mover.ended(request)) == {(0, 1): "NO_REASSIGNMENT_IN_PROGRESS"}


# -- controllers that die -----------------------------------------------------------------------------------------


class Death:
    """Ends the executor's thread before the first step of a name, as the end of its process would."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached = threading.Event()

    def __call__(self, step: str) -> None:
        if step == self.step:
            self.reached.set()
            raise SystemExit


def dying(
    cluster: LocalCluster, chroot: str, step: str, then: Callable[[Mover], None] = lambda _: None
) -> None:
    """Let a controller carry requests out until it dies before ``step``; ``then`` is called once it leads."""
    death = Death(step)
    with in_process(cluster, chroot=chroot, reassign=SETTINGS, before_step=death) as controller:
        then(Mover(controller))
        assert death.reached.wait(TIMEOUT), f"{step} was not reached"


STEPS = ["throttle", "intend", "place", "start", "elect", "release", "end"]


# The end of a thread by SystemExit is what they are about.
threads_end = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@threads_end
def test_a_controller_dies_at_every_step_and_the_next_one_goes_on(
    three_brokers: LocalCluster, judge: Judge
) -> None:
    topic = judge.create([1, 2], [2, 1], size=1_000_000)
    path = judge.paths(3)[1]
    rows = [Row(topic, 0, [3, 2], [path, "any"]), Row(topic, 1, [3, 1])]
    chroot = unique_name("deaths")
    requests: list[int] = []
    widened: list[str] = []

    def submit(mover: Mover) -> None:
        requests.append(mover.submit(*rows, throttle=FAST))
        widened.append(mover.controller.create(1, replication_factor=1))
        item = {"topic": widened[0], "replication_factor": 3}
        answer = mover.controller.http.post("/v1/replication-factors", json={"topics": [item]})
        assert answer.json()["topics"][0]["error"] == "NONE", answer.text

    dying(three_brokers, chroot, STEPS[0], submit)
    for step in ["load", *STEPS[1:]]:
        dying(three_brokers, chroot, step)
    with in_process(three_brokers, chroot=chroot, reassign=SETTINGS) as controller:
        view = Mover(controller).ended(requests[0])
        # Other replication factors are requests, too.
        assert Mover(controller).ended(requests[0] + 1).state == "done"
    assert (view.state, outcomes(view)) == ("done", {(0, 3): "NONE", (1, 3): "NONE"})
    await_true(lambda: set(judge.replicas(widened[0])[0]) == {1, 2, 3}, "three replicas")
    judge.await_replicas(topic, [(3, 2), (3, 1)])
    assert judge.where(topic, 0, 3) == (path, None)
    await_true(lambda: judge.throttles(topic) == {}, "no throttle is left")


def test_a_deposed_controller_asks_kafka_for_nothing(three_brokers: LocalCluster, judge: Judge) -> None:
    topic = judge.create([1, 2], size=SIZE)
    steps: list[str] = []
    due = threading.Event()

    def before(step: str) -> None:
        steps.append(step)
        if step == "load" and due.is_set():
            due.clear()
            steps.append("deposed")
            # As the claim of another controller does.
            session_of(controller.service).client.set(CONTROLLER_EPOCH, b"1000")

    with in_process(three_brokers, reassign=SETTINGS, before_step=before) as controller:
        mover = Mover(controller)
        request = mover.submit(Row(topic, 0, [3, 2]), throttle=PACE)
        mover.moving(request)
        due.set()
        mover.cancel(request)
        # It is elected again, and then cancels the move in Kafka.
        assert mover.ended(request).state == "cancelled"
    later = steps[steps.index("deposed") + 1 :]
    assert later[0] == "load", later
    assert "withdraw" in later
    judge.await_replicas(topic, [(1, 2)])


@pytest.mark.long
@threads_end
def test_a_cancel_outlives_controllers_that_die(three_brokers: LocalCluster, judge: Judge) -> None:
    topic = judge.create([1, 2], size=SIZE)
    chroot = unique_name("deaths")
    requests: list[int] = []

    def submit(mover: Mover) -> None:
        # Three controllers come and go while its bytes are on their way.
        requests.append(mover.submit(Row(topic, 0, [2, 3]), throttle=SLOW))

    dying(three_brokers, chroot, "store", submit)
    assert judge.ongoing(topic) == {0: (3,)}
    dying(three_brokers, chroot, "withdraw", lambda mover: mover.cancel(requests[0]))
    assert judge.ongoing(topic) == {0: (3,)}
    dying(three_brokers, chroot, "release")
    assert judge.ongoing(topic) == {}
    with in_process(three_brokers, chroot=chroot, reassign=SETTINGS) as controller:
        view = Mover(controller).ended(requests[0])
    assert outcomes(view) == {(0, 3): "OPERATION_NOT_ATTEMPTED"}
    judge.await_replicas(topic, [(1, 2)])
    await_true(lambda: judge.throttles(topic) == {}, "no throttle is left")


# -- brokers and log directories that die -------------------------------------------------------------------------


@pytest.fixture
def third_broker(three_brokers: LocalCluster, judge: Judge) -> Iterator[int]:
    """A broker that a test may kill or take a log directory from."""
    paths = [Path(path) for path in judge.paths(3)]
    yield 3
    away = [path.with_name(f"{path.name}-away") for path in paths]
    if any(path.exists() for path in away):
        three_brokers.kill("broker-3")
        for path, moved in zip(paths, away, strict=True):
            if moved.exists():
                path.unlink()
                moved.rename(path)
    three_brokers.start("broker-3")
    judge.await_brokers(1, 2, 3)
    await_true(lambda: judge.answers(3), "broker 3 again")
    await_true(lambda: judge.throttles() == {}, "the end of the throttles that it could not be told before")


@pytest.mark.long
def test_what_goes_to_a_broker_or_a_log_directory_that_dies_fails_and_the_rest_is_done(
    three_brokers: LocalCluster, mover: Mover, judge: Judge, third_broker: int
) -> None:
    topic = judge.create([1], [2], [third_broker], size=SIZE)
    there = judge.other(topic, 2, third_broker)
    Path(there).rename(f"{there}-away")
    Path(there).write_text("not a directory")
    request = mover.submit(Row(topic, 2, [third_broker], [there]))
    assert outcomes(mover.ended(request)) == {(2, third_broker): "KAFKA_STORAGE_ERROR"}

    # It takes seconds until the broker counts as dead, and then as gone: the other move must not have ended by then.
    request = mover.submit(Row(topic, 0, [third_broker]), Row(topic, 1, [1]), throttle=SLOW)
    mover.until(request, lambda view: view.moving == 2, "both on their way")
    await_true(lambda: judge.ongoing(topic) == {0: (third_broker,), 1: (1,)}, "both reassignments in Kafka")
    three_brokers.kill(f"broker-{third_broker}")
    view = mover.until(
        request, lambda view: view.failed == 1, "the end of what goes to the dead broker", 2 * TIMEOUT
    )
    assert outcomes(view) == {(0, third_broker): "BROKER_NOT_AVAILABLE", (1, 1): "REASSIGNMENT_IN_PROGRESS"}
    assert judge.ongoing(topic) == {1: (1,)}
    mover.throttle(request, throttle=None)
    assert mover.ended(request).state == "failed"
    judge.await_replicas(topic, [(1,), (1,), (third_broker,)])
