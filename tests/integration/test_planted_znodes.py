"""Znodes that somebody without rights plants before, and while, the first protected controller starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.state.paths import FIXED_PATHS
from spark_ordered_kafka.controller.zk import protection
from spark_ordered_kafka.controller.zk.connection import client_of
from spark_ordered_kafka.controller.zk.protection import acls
from spark_ordered_kafka.controller.zk.session import ROOT, Session
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import in_process
from tests.integration.keepers import started
from tests.servers import TIMEOUT, unique_name


@pytest.fixture
def settings(kafka_cluster: LocalCluster) -> ZooKeeperSettings:
    """Of a controller that owns its znodes, in a tree of its own."""
    connect = f"{kafka_cluster.zookeeper}/{unique_name('planted')}"
    return ZooKeeperSettings(connect, 10.0, digest_username="owner", digest_password="hush")


@pytest.fixture
def stranger(settings: ZooKeeperSettings) -> Iterator[KazooClient]:
    """Somebody who reaches ZooKeeper, and has no password of the controllers."""
    with started(client_of(replace(settings, digest_username=None, digest_password=None))) as client:
        client.ensure_path("/")
        yield client


def start(settings: ZooKeeperSettings) -> None:
    """Connect, and make what is always there, as a controller does at its start."""
    session = Session(settings, timeout=TIMEOUT)
    session.connect(TIMEOUT, FIXED_PATHS)
    session.close()


def open_znodes(settings: ZooKeeperSettings) -> list[str]:
    """Those that are not the owner's alone."""
    with started(client_of(settings)) as owner:

        def below(path: str) -> list[str]:
            return [path, *(found for name in owner.get_children(path) for found in below(f"{path}/{name}"))]

        return [path for path in below(ROOT) if owner.get_acls(path)[0] != acls(settings)]


def plant(stranger: KazooClient, path: str) -> None:
    stranger.create(path, b"{}", acl=OPEN_ACL_UNSAFE, makepath=True)


def test_a_root_that_looks_done_is_not_believed(settings: ZooKeeperSettings, stranger: KazooClient) -> None:
    for path in (f"{ROOT}/topics/t/layouts/0", f"{ROOT}/reviews", f"{ROOT}/protected"):
        plant(stranger, path)
    # Anybody may give znodes of their own any ACL: the controllers' name and the hash of their password are no secrets.
    for path in (f"{ROOT}/topics", f"{ROOT}/protected", ROOT):
        stranger.set_acls(path, acls(settings))
    start(settings)
    assert open_znodes(settings) == []
    for path in (ROOT, f"{ROOT}/topics/t/layouts/0", f"{ROOT}/reviews"):
        with pytest.raises(NoAuthError):
            stranger.create(f"{path}/more", b"")
    # And once it is done it is believed: later starts look at the mark alone.
    with started(client_of(settings)) as owner:
        owner.set_acls(f"{ROOT}/reviews", OPEN_ACL_UNSAFE)
    start(settings)
    assert open_znodes(settings) == [f"{ROOT}/reviews"]
    # With another password the mark is another: all is looked at again.
    with started(client_of(settings)) as owner:
        owner.set(f"{ROOT}/protected", b"0" * 64)
    start(settings)
    assert open_znodes(settings) == []


@pytest.mark.parametrize("tree_before", [True, False], ids=["tree from before", "nothing before"])
def test_whoever_plants_all_the_time_leaves_nothing_open(
    settings: ZooKeeperSettings, stranger: KazooClient, tree_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the root, in every znode that is known, and the root itself, again and again, until nobody may any more."""
    monkeypatch.setattr(protection, "_CHUNK", 1)  # one request after another: the windows are long
    if tree_before:
        for number in range(30):
            plant(stranger, f"{ROOT}/topics/t{number}/layouts/0")
    planted, over = [0], threading.Event()

    def keep_planting() -> None:
        places = [
            ROOT,
            f"{ROOT}/topics",
            f"{ROOT}/admin",
            *(f"{ROOT}/topics/t{n}/layouts" for n in range(30)),
        ]
        while not over.is_set():
            for place in places:
                planted[0] += 1
                for path in (ROOT, f"{place}/planted{planted[0]}"):
                    with suppress(KazooException):
                        stranger.create(path, b"", acl=OPEN_ACL_UNSAFE)
            if not tree_before:
                with suppress(KazooException):
                    stranger.delete(ROOT)

    planter = threading.Thread(target=keep_planting)
    planter.start()
    try:
        for _ in range(3):
            start(settings)
    finally:
        over.set()
        planter.join(TIMEOUT)
    assert open_znodes(settings) == []


def test_what_cannot_be_taken_is_named(settings: ZooKeeperSettings, stranger: KazooClient) -> None:
    plant(stranger, f"{ROOT}/topics/theirs")
    stranger.set_acls(f"{ROOT}/topics/theirs", [make_digest_acl("eve", "x", all=True)])
    with pytest.raises(RequestError, match=f"znode {ROOT}/topics/theirs .* belongs to another user"):
        start(settings)
    # It is nobody's to add to meanwhile, and the operator can take it away.
    with pytest.raises(NoAuthError):
        stranger.create(f"{ROOT}/topics/more", b"")
    with started(client_of(settings)) as owner:
        owner.delete(f"{ROOT}/topics/theirs")
    start(settings)
    assert open_znodes(settings) == []


def test_without_a_login_there_is_no_mark(kafka_cluster: LocalCluster, settings: ZooKeeperSettings) -> None:
    anonymous = replace(settings, digest_username=None, digest_password=None)
    start(anonymous)
    with started(client_of(anonymous)) as anybody, pytest.raises(NoNodeError):
        anybody.get(f"{ROOT}/protected")
    with in_process(kafka_cluster, zookeeper=settings) as controller:
        assert controller.create(1)
        assert open_znodes(settings) == []
