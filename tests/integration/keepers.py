"""ZooKeeper for tests: settings for a secured cluster, each with a tree of its own, and connected clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kazoo.client import KazooClient

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.connection import client_of
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.servers import TIMEOUT, unique_name


@contextmanager
def connected(settings: ZooKeeperSettings) -> Iterator[KazooClient]:
    """A client in the settings' chroot that looks at nobody's rights before."""
    client = client_of(settings)
    assert client.start_async().wait(TIMEOUT)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def keeper(cluster: LocalCluster) -> ZooKeeperSettings:
    """TLS to ZooKeeper, in a tree of its own; nobody logs in."""
    return ZooKeeperSettings(
        f"{cluster.zookeeper}/{unique_name('secure')}",
        session_timeout=10.0,
        ssl_enabled=True,
        ssl_ca_location=str(cluster.secrets.ca),
        ssl_certificate_location=str(cluster.secrets.certificate(CONTROLLER)),
        ssl_key_location=str(cluster.secrets.key(CONTROLLER)),
    )


def with_sasl(cluster: LocalCluster) -> ZooKeeperSettings:
    """The same, with the controllers' own login."""
    password = cluster.secrets.password(CONTROLLER)
    return replace(keeper(cluster), sasl_username=CONTROLLER, sasl_password=password)


@contextmanager
def started(client: KazooClient) -> Iterator[KazooClient]:
    """The client, connected."""
    client.start(TIMEOUT)
    try:
        yield client
    finally:
        client.stop()
        client.close()
