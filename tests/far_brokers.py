"""Brokers that clients reach over a long way, as in another region: what either side sends arrives later.

``python -m tests.far_brokers LISTENED BACKEND SECONDS`` forwards connections from one port of this machine to another one, and
ends with its stdin. Delays of the kernel (``netem``) are missing on many machines.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from contextlib import suppress

from spark_ordered_kafka.local.ports import HOST, free_ports
from spark_ordered_kafka.local.state import ClusterState, Server

ONE_WAY = 0.03
"""Seconds; twice as many there and back, as between regions of a continent."""
_CHUNK = 2**18


class Way:
    """``listened`` is the port under which clients reach a broker, ``near`` one for other brokers."""

    def __init__(self, broker: int, taken: set[int]) -> None:
        ports = free_ports(taken, random.Random())
        self.listened, self.near = next(ports), next(ports)
        command = [sys.executable, "-m", __name__, str(self.listened), str(broker), str(ONE_WAY)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the way to a broker is open"

    def close(self) -> None:
        """Take it away; otherwise it ends with this process."""
        self.process.communicate()


_ways: dict[int, Way] = {}


def properties(state: ClusterState, node: Server) -> dict[str, str]:
    """What lets clients go the long way to a broker, but for their first request.

    Of secured brokers nothing: their certificates and listeners are what their tests are about.
    """
    if node.kind != "broker" or state.secure:
        return {}
    if node.port not in _ways:
        _ways[node.port] = Way(node.port, state.ports)
    way = _ways[node.port]
    near, controller = f"NEAR://{HOST}:{way.near}", f"CONTROLLER://{HOST}:"
    own = [f"PLAINTEXT://{node.address}", near, *(f"{controller}{port}" for port in node.internal_ports)]
    return {
        "listeners": ",".join(own),
        "advertised.listeners": f"PLAINTEXT://{HOST}:{way.listened},{near}",
        "inter.broker.listener.name": "NEAR",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NEAR:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            at, data = await under_way.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                return
            writer.write(data)
            await writer.drain()

    arriving = asyncio.create_task(arrive())
    while True:
        try:
            data = await reader.read(_CHUNK)
        except ConnectionError:
            data = b""
        under_way.put_nowait((loop.time() + delay, data))
        if not data:
            break
    with suppress(ConnectionError):
        await arriving
    writer.close()


async def _serve(listened: int, backend: int, delay: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(HOST, backend)
        except ConnectionError:
            writer.transport.abort()
            return
        await asyncio.gather(_forward(reader, other_writer, delay), _forward(other_reader, writer, delay))

    await asyncio.start_server(connected, HOST, listened)
    print("open", flush=True)  # noqa: T201 - what started it waits for this line
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
