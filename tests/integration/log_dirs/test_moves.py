"""Moves between log directories, under a writer, back again, and beside a reassignment."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess
from tests.integration.log_dirs.moving import (
    LOG_DIRS_RATE,
    RECORD,
    Cli,
    Writer,
    fill,
    moved,
    other,
    placed,
    replica,
    throttled,
    where,
)
from tests.servers import await_true
from tests.streams import raw_records


@pytest.mark.long
def test_a_leader_and_a_follower_move_under_a_writer(
    three_brokers: LocalCluster, controller: InProcess, admin: KafkaAdmin, cli: Cli, tmp_path: Path
) -> None:
    topic = placed(admin, [1, 2])
    rows = [replica(topic, broker, other(controller, topic, broker)) for broker in (1, 2)]
    assert cli.verify(rows[0])[0] == 1
    plan = tmp_path / "replicas.json"
    plan.write_text(json.dumps({"replicas": rows}))
    from_file = ("--replica-log-dirs-json-file", str(plan))
    with Writer(three_brokers.bootstrap_servers, topic) as writer:
        with throttled(admin, LOG_DIRS_RATE, 1, 2):
            fill(three_brokers.bootstrap_servers, topic, 6_000_000)
            code, out, _ = cli("log-dirs", "move", *from_file, "--no-wait")
            assert code == 0
            *lines, last = out.splitlines()
            assert [line.split(" to ")[1] for line in lines] == [row["log_dir"] for row in rows]
            assert re.fullmatch(r"Request id: \d+", last)

            def in_motion() -> bool:
                return all(
                    view.temporary_replica_log_dir == row["log_dir"]
                    and view.current_replica_log_dir != row["log_dir"]
                    and (view.temporary_replica_offset_lag or 0) > 0
                    and 0 < (view.temporary_replica_size or 0) < (view.current_replica_size or 0)
                    for view, row in zip(where(controller, topic), rows, strict=True)
                )

            await_true(in_motion, "both replicas are being moved")
            code, out, _ = cli("log-dirs", "verify", *from_file)
            assert code == 1
            assert out.count("is being moved from ") == 2
            shown = json.loads(cli("log-dirs", "describe", "--topic-list", topic, "--output", "json")[1])
            flags = {
                (row["broker"], one["path"]): replica["is_temporary"]
                for row in shown["brokers"]
                for one in row["log_dirs"]
                for replica in one["partitions"]
            }
            assert sorted(flags.values()) == [False, False, True, True]
            assert all(flags[row["broker"], row["log_dir"]] for row in rows)
        # Asked for again, it is followed to its end.
        code, out, _ = cli("log-dirs", "move", *from_file)
        assert (code, out.count("is there")) == (0, 2)
        request_id = last.split()[-1]
        code, out, _ = cli("reassign", "status", "--request", request_id, "--follow")
        assert (code, f"request {request_id} done: 1 of 1 partition done" in out) == (0, True)
        written = len(writer.acknowledged)
        await_true(lambda: len(writer.acknowledged) > written + 50, "the writer goes on")
    assert cli("log-dirs", "verify", *from_file)[0] == 0
    assert [
        (view.current_replica_log_dir, view.temporary_replica_log_dir) for view in where(controller, topic)
    ] == [(row["log_dir"], None) for row in rows]
    assert writer.failures == []
    values = [message.value() or b"" for message in raw_records(three_brokers, topic, 1)]
    numbers = [int(value[1:]) for value in values if len(value) != RECORD]
    assert numbers == list(range(len(numbers))) == sorted(writer.acknowledged)


def test_moving_back_cancels(
    three_brokers: LocalCluster, controller: InProcess, admin: KafkaAdmin, cli: Cli
) -> None:
    topic = placed(admin, [3, 1], size=6_000_000)
    (before,) = where(controller, topic, 3)
    there = replica(topic, 3, other(controller, topic, 3))
    back = replica(topic, 3, before.current_replica_log_dir or "")

    def being_moved() -> bool:
        (view,) = where(controller, topic, 3)
        return view.temporary_replica_log_dir is not None

    with throttled(admin, LOG_DIRS_RATE, 3):
        assert moved(controller, there, validate_only=True) == [("NONE", "")]
        assert not being_moved()
        assert moved(controller, there) == moved(controller, there) == [("NONE", "")]
        assert being_moved()
        # Another controller, with requests of its own, takes it for one of another tool.
        request_id = cli.move(there, "--no-wait")[1].split()[-1]
        code, out, _ = cli.move(back)
        assert (code, "is there" in out) == (0, True), out
        assert where(controller, topic, 3) == [before]
    code, _, err = cli("reassign", "status", "--request", request_id, "--follow")
    assert code == 1
    assert f"error: {topic}-0: OPERATION_NOT_ATTEMPTED: request {int(request_id) + 1} has replaced it" in err
    code, out, _ = cli.verify(there, "--output", "json")
    assert code == 1
    (row,) = json.loads(out)["replicas"]
    assert (row["status"], row["current_replica_log_dir"]) == ("differs", back["log_dir"])
    # To where it is already: nothing to do.
    assert cli.move(back)[0] == 0


def test_a_replica_that_is_being_reassigned_is_left_alone(controller: InProcess, admin: KafkaAdmin) -> None:
    topic = placed(admin, [1, 2], [1, 2])
    store = ReassignmentStore(session_of(controller.service))
    moves = [
        Move(topic=topic, partition=0, before=(1, 2), after=(2, 3), state="moving"),
        Move(topic=topic, partition=1, before=(1, 2), after=(2, 3)),
    ]
    record = store.create(
        lambda request_id: RequestRecord(request_id=request_id, created_at=0.0, principal="User:test"), moves
    )
    try:
        row = replica(topic, 1, other(controller, topic, 1))
        # Also one that stays on its broker, and one whose turn has not come.
        stays = replica(topic, 2, other(controller, topic, 2))
        waits = replica(topic, 1, row["log_dir"], partition=1)
        for more in ({}, {"validate_only": True}):
            for error, message in moved(controller, row, stays, waits, **more):
                assert error == "REASSIGNMENT_IN_PROGRESS"
                assert f"by request {record.request_id}: wait for its end, or cancel it" in message
    finally:
        store.delete(record.request_id)
