"""Local clusters with three KRaft controllers in place of one."""

from __future__ import annotations

from collections.abc import Iterator

from spark_ordered_kafka.local.plan import Parameters, new_state
from spark_ordered_kafka.local.state import ClusterState, Server


def state_with_quorum(parameters: Parameters, ports: Iterator[int]) -> ClusterState:
    """As :func:`~spark_ordered_kafka.local.plan.new_state` of two brokers or more."""
    state = new_state(parameters, ports)
    (first,) = state.of("kraft")
    for number in (first.id + 1, first.id + 2):
        port = next(ports)
        state.servers.append(
            Server(kind="kraft", id=number, port=port, internal_ports=[port], tls=state.secure)
        )
    return state
