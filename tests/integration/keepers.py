"""How controllers reach the ZooKeeper of a secured cluster, each in a tree of its own."""

from __future__ import annotations

from dataclasses import replace

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.servers import unique_name


def keeper(cluster: LocalCluster) -> ZooKeeperSettings:
    """TLS to ZooKeeper, in a tree of its own; nobody logs in."""
    return ZooKeeperSettings(
        f"{cluster.zookeeper}/{unique_name('secure')}",
        session_timeout=4.0,
        ssl_enabled=True,
        ssl_ca_location=str(cluster.secrets.ca),
        ssl_certificate_location=str(cluster.secrets.certificate(CONTROLLER)),
        ssl_key_location=str(cluster.secrets.key(CONTROLLER)),
    )


def with_sasl(cluster: LocalCluster) -> ZooKeeperSettings:
    """The same, with the controllers' own login."""
    password = cluster.secrets.password(CONTROLLER)
    return replace(keeper(cluster), sasl_username=CONTROLLER, sasl_password=password)
