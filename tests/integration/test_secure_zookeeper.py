"""ZooKeeper of a secured cluster: whose the znodes are, and who may log in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import KeeperState

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk import connection as zookeeper
from spark_ordered_kafka.controller.zk import protection
from spark_ordered_kafka.controller.zk.connection import client_of
from spark_ordered_kafka.controller.zk.protection import acls
from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.integration.controllers import in_process
from tests.integration.keepers import connected, keeper, with_sasl
from tests.integration.secured import EVERYBODY, Kafka
from tests.servers import TIMEOUT, await_true, unique_name


def tree(client: KazooClient, path: str = ROOT) -> list[str]:
    """Every znode, ephemeral ones and those of kazoo's recipes included."""
    below = [name for child in client.get_children(path) for name in tree(client, f"{path}/{child}")]
    return [path, *below]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["sasl", "digest"])
def test_znodes_are_the_controllers_alone(
    scheme: str, secure_cluster: LocalCluster, kafka_cluster: LocalCluster
) -> None:
    if scheme == "sasl":
        cluster, settings = secure_cluster, with_sasl(secure_cluster)
        anonymous = replace(settings, sasl_username=None, sasl_password=None)
        kafka = secure_cluster.kafka_properties(CONTROLLER)
    else:
        # ZooKeeper offers this one without being configured for it.
        cluster = kafka_cluster
        anonymous = ZooKeeperSettings(f"{cluster.zookeeper}/{unique_name('digest')}", session_timeout=20.0)
        settings = replace(anonymous, digest_username="owner", digest_password="hush")
        kafka = kafka_cluster.kafka_properties()
    with in_process(cluster, kafka=kafka, zookeeper=settings, authorization=EVERYBODY) as controller:
        topic = controller.create(2)
        assert controller.alter(topic, 3).error_code == 0
        with connected(settings) as owner:
            paths = tree(owner)
            assert f"{ROOT}/controller" in paths
            assert any(topic in path for path in paths)
            for path in paths:
                assert owner.get_acls(path)[0] == acls(settings), path
        with connected(anonymous) as other:
            for path in paths:
                for attempt in (other.get, other.get_children, lambda p: other.set(p, b"{}")):
                    with pytest.raises(NoAuthError):
                        attempt(path)
            with pytest.raises(NoAuthError):
                other.create(f"{ROOT}/topics/mine", b"{}")
    names = "zookeeper.sasl.username or zookeeper.digest.username is missing"
    with pytest.raises(RequestError, match=f"CLUSTER_AUTHORIZATION_FAILED: {names}") as refused:
        start(anonymous, kafka)
    assert not refused.value.retriable
    if scheme == "digest":
        with pytest.raises(RequestError, match=r"zookeeper\.digest\.username has the value 'owner'"):
            start(replace(settings, digest_password="other"), kafka)


def start(settings: ZooKeeperSettings, kafka: Kafka) -> None:
    """Connect as a controller does when it starts."""
    zookeeper.connect(client_of(settings), settings, ROOT, TIMEOUT)


@pytest.mark.long
@pytest.mark.parametrize(
    "digest", [{}, {"digest_username": "owner", "digest_password": "hush"}], ids=["open", "digest"]
)
def test_a_path_of_several_parts_is_made(kafka_cluster: LocalCluster, digest: dict[str, Any]) -> None:
    tree = f"{kafka_cluster.zookeeper}/{unique_name('deep')}/in/the/tree"
    settings = ZooKeeperSettings(tree, session_timeout=20.0, **digest)
    for _ in range(2):
        with in_process(kafka_cluster, zookeeper=settings) as controller:
            assert controller.alter(controller.create(1), 2).error == "NONE"


def test_a_tree_from_before_gets_its_acl(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ZooKeeperSettings(f"{kafka_cluster.zookeeper}/{unique_name('late')}", session_timeout=20.0)
    after = replace(before, digest_username="owner", digest_password="hush")
    with in_process(kafka_cluster, zookeeper=before) as controller:
        topics = [controller.create(2) for _ in range(3)]
        assert controller.alter(topics[0], 3).error_code == 0
    # More than one request after another for the znodes of a level.
    monkeypatch.setattr(protection, "_CHUNK", 2)
    with in_process(kafka_cluster, zookeeper=after) as controller:
        assert controller.topic(topics[0]).undeleted_partition_count == 3
        assert controller.alter(topics[1], 3).error_code == 0
        with connected(after) as owner:
            paths = tree(owner)
            assert {topic for topic in topics for path in paths if topic in path} == set(topics)
            for path in paths:
                assert owner.get_acls(path)[0] == acls(after), path


WRONG_KEEPER: dict[str, tuple[Callable[[ZooKeeperSettings, dict[str, str]], ZooKeeperSettings], str]] = {
    "password": (
        lambda z, s: replace(z, sasl_password="hush"),
        "SASL_AUTHENTICATION_FAILED: zookeeper.sasl.username has the value 'controller': ZooKeeper at .* refuses",
    ),
    "authority": (
        lambda z, s: replace(z, ssl_ca_location=s["ca"]),
        "zookeeper.ssl.ca.location has the value '.*': give the authority that signed the server's certificate",
    ),
    "host": (
        lambda z, s: replace(z, connect=z.connect.replace("127.0.0.1", "0.0.0.0")),
        "zookeeper.connect has the value '0.0.0.0.*': IP address mismatch",
    ),
    "no certificate": (
        lambda z, s: replace(z, ssl_certificate_location=None, ssl_key_location=None),
        "zookeeper.ssl.certificate.location is missing: the server refused the TLS connection",
    ),
    "another authority's certificate": (
        lambda z, s: replace(z, ssl_certificate_location=s["certificate"], ssl_key_location=s["key"]),
        "zookeeper.ssl.certificate.location has the value '.*': the server refused the TLS connection",
    ),
    "plaintext to TLS": (
        lambda z, s: ZooKeeperSettings(z.connect),
        "zookeeper.ssl.enabled has the value False: the server at .* speaks TLS; it must be true",
    ),
}


@pytest.mark.parametrize("what", WRONG_KEEPER)
def test_what_zookeeper_refuses_is_named(
    what: str, secure_cluster: LocalCluster, stranger: dict[str, str]
) -> None:
    make, told = WRONG_KEEPER[what]
    with pytest.raises((ConfigError, RequestError), match=f"^{told}") as refused:
        start(make(with_sasl(secure_cluster), stranger), {})
    assert not refused.value.retriable
    assert "hush" not in str(refused.value)


def test_tls_to_a_zookeeper_without_it_is_named(
    secure_cluster: LocalCluster, kafka_cluster: LocalCluster
) -> None:
    settings = replace(keeper(secure_cluster), connect=kafka_cluster.zookeeper)
    with pytest.raises(
        ConfigError, match=r"^zookeeper\.ssl\.enabled has the value True: the server at .* no TLS"
    ):
        start(settings, {})


@pytest.mark.long
def test_a_failed_login_at_zookeeper_is_not_the_end(secure_cluster: LocalCluster) -> None:
    """Kazoo gives up for good when a login fails, be it that ZooKeeper went down in the middle of it."""
    settings = with_sasl(secure_cluster)
    password = secure_cluster.secrets.password_file(CONTROLLER)
    right = password.read_text()
    client = client_of(settings)
    zookeeper.connect(client, settings, ROOT, TIMEOUT)
    try:
        secure_cluster.stop("zookeeper-1")
        password.write_text("another one")
        secure_cluster.start("zookeeper-1")
        await_true(lambda: client.client_state == KeeperState.CLOSED, "kazoo gives up")
        with pytest.raises(RequestError, match="SASL_AUTHENTICATION_FAILED"):
            zookeeper.reconnect(client, settings, ROOT, TIMEOUT)
    finally:
        password.write_text(right)
        secure_cluster.stop("zookeeper-1")
        secure_cluster.start("zookeeper-1")
    zookeeper.reconnect(client, settings, ROOT, TIMEOUT)
    client.ensure_path(f"{ROOT}/again")
    # With a session it does nothing.
    session = client.client_id
    zookeeper.reconnect(client, settings, ROOT, TIMEOUT)
    assert client.client_id == session
    client.stop()
    client.close()
    secure_cluster.up()
    assert all(server.status == "running" for server in secure_cluster.status())
