"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Iterator

from spark_ordered_kafka.errors import LocalClusterError

HOST = "127.0.0.1"

# Below the range from which the usual systems take the local ports of outgoing connections (32768 up on Linux, 49152
# up elsewhere): a remembered port must still be free at the next start.
_RANGE = range(20000, 32768)


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Java's servers set it as well: connections in TIME_WAIT are no obstacle, a listening socket is.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(taken: Collection[int], rng: random.Random) -> Iterator[int]:
    """Free ports in random order, without those in ``taken``.

    Raises:
        LocalClusterError: on the next one, when no port is left.
    """
    for port in rng.sample(_RANGE, len(_RANGE)):
        if port not in taken and is_free(port):
            yield port
    raise LocalClusterError(f"no free TCP port on {HOST} between {_RANGE.start} and {_RANGE.stop - 1}")
