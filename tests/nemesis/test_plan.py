"""What is drawn from a seed."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from tests.nemesis.plan import GROUPS, LEADER, QUOTAS, UNSAFE, Hosts, Round, rounds

HOSTS = Hosts(
    ("broker-1", "broker-2", "broker-3"),
    ("zookeeper-1", "zookeeper-2", "zookeeper-3"),
    ("controller-1", "controller-2", "controller-3"),
    ("kraft-3000", "kraft-3001", "kraft-3002"),
    ("writer-1", "copier-1"),
    ("copier-1",),
)
SPARK = replace(
    HOSTS,
    clients=(*HOSTS.clients, "query-1"),
    drivers=("query-1",),
    masters=("master-1",),
    workers=("worker-1", "worker-2"),
)


def first(seed: int, hosts: Hosts) -> list[Round]:
    return list(islice(rounds(seed, hosts), 40))


@given(st.integers(), st.sampled_from([HOSTS, SPARK]))
def test_a_seed_gives_the_same_rounds_again(seed: int, hosts: Hosts) -> None:
    assert first(seed, hosts) == first(seed, hosts)


@given(st.integers(), st.sampled_from([HOSTS, SPARK]))
def test_every_fault_is_of_hosts_that_there_are(seed: int, hosts: Hosts) -> None:
    known = {*hosts.servers, *hosts.clients, LEADER, UNSAFE, *GROUPS, *QUOTAS}
    for one in first(seed, hosts):
        for fault in one.faults:
            assert fault.target in known
            assert fault.other is None or fault.other in known - {fault.target}
            assert (fault.other is not None) == (fault.kind in {"cut", "one-way cut", "delay", "loss"})


@given(st.integers())
def test_a_short_run_has_every_kind(seed: int) -> None:
    kinds = {
        hosts: {fault.kind for one in first(seed, hosts) for fault in one.faults} for hosts in (HOSTS, SPARK)
    }
    assert len(kinds[HOSTS]) == 17
    assert kinds[SPARK] - kinds[HOSTS] == {"full checkpoint"}
