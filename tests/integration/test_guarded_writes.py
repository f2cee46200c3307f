"""What only the controller may write: a write that loses a race is made again from what is there then."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kazoo.client import TransactionRequest

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.session import ROOT, ConflictError, DeposedError, Session
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, unique_name

PATH = f"{ROOT}/count"


@pytest.fixture
def session(kafka_cluster: LocalCluster) -> Iterator[Session]:
    settings = ZooKeeperSettings(f"{kafka_cluster.zookeeper}/{unique_name('guarded')}", session_timeout=30.0)
    session = Session(settings, timeout=TIMEOUT)
    session.connect(TIMEOUT, [PATH])
    try:
        assert session.claim("test", "http://test", threading.Event()) is not None
        session.client.set(PATH, b"0")
        yield session
    finally:
        session.close()


def increment(session: Session, races: int) -> int:
    """Add 1 to the znode; each of the first ``races`` attempts loses against a write that adds 10."""
    attempts = 0

    def fill(transaction: TransactionRequest) -> int:
        nonlocal attempts
        data, stat = session.client.get(PATH)
        if attempts < races:
            session.client.set(PATH, str(int(data) + 10).encode())
        attempts += 1
        transaction.set_data(PATH, str(int(data) + 1).encode(), version=stat.version)
        return int(data) + 1

    return session.compare_and_set(PATH, fill)


def test_a_write_that_loses_is_made_again(session: Session) -> None:
    assert [increment(session, races) for races in (0, 1, 4)] == [1, 12, 53]
    assert session.client.get(PATH)[0] == b"53"


def test_a_write_that_loses_five_times_is_given_up(session: Session) -> None:
    with pytest.raises(ConflictError, match=PATH):
        increment(session, 5)
    assert session.client.get(PATH)[0] == b"50"


def test_a_refusal_is_not_made_again(session: Session) -> None:
    attempts: list[TransactionRequest] = []

    def refuse(transaction: TransactionRequest) -> None:
        attempts.append(transaction)
        raise ConflictError(PATH)

    with pytest.raises(ConflictError):
        session.compare_and_set(PATH, refuse)
    assert len(attempts) == 1


def test_a_former_controller_writes_nothing(session: Session) -> None:
    # As the claim of another controller does.
    session.client.set(f"{ROOT}/controller_epoch", b"2")
    with pytest.raises(DeposedError):
        increment(session, 0)
    assert session.client.get(PATH)[0] == b"0"
