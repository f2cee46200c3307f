"""The servers of a ZooKeeper ensemble, each asked for itself by the command ``srvr``, which ZooKeeper allows by default."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kazoo.hosts import collect_hosts

from spark_ordered_kafka.client.schemas import ZooKeeperServer
from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.connection import tls_context

_MODE = re.compile(r"^Mode: (\w+)$", re.MULTILINE)
_VERSION = re.compile(r"^Zookeeper version: ([^,\s-]+)", re.MULTILINE)
_AT_ONCE = 8
_MOST = 64_000


def servers(settings: ZooKeeperSettings, timeout: float) -> list[ZooKeeperServer]:
    """What each server of ``zookeeper.connect`` says of itself; ``timeout``: seconds for each step of a connection."""
    hosts, _ = collect_hosts(settings.connect)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="srvr") as pool:
        return list(pool.map(partial(_server, settings, timeout), hosts))


def _server(settings: ZooKeeperSettings, timeout: float, address: tuple[str, int]) -> ZooKeeperServer:
    shown = f"{address[0]}:{address[1]}"
    try:
        said = _srvr(settings, timeout, address)
    except OSError as error:
        return ZooKeeperServer(address=shown, error=str(error) or type(error).__name__)
    mode, version = _MODE.search(said), _VERSION.search(said)
    if mode is None:
        return ZooKeeperServer(address=shown, error=f"it does not say what it is: {said.strip()[:200]!r}")
    return ZooKeeperServer(
        address=shown, mode=mode[1].lower(), version=None if version is None else version[1]
    )


def _srvr(settings: ZooKeeperSettings, timeout: float, address: tuple[str, int]) -> str:
    context = tls_context(settings)
    with socket.create_connection(address, timeout) as plain:
        opened = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
        with opened:
            opened.sendall(b"srvr")
            said = b""
            while len(said) < _MOST and (part := opened.recv(4096)):
                said += part
    return said.decode("utf-8", "replace")
