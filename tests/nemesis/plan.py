"""What is done to a cluster, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "kill",
    "pause",
    "replace",
    "restart",
    "roll",
    "outage",
    "cut",
    "one-way cut",
    "isolate",
    "delay",
    "loss",
    "expire",
    "log dir",
    "full disk",
    "full checkpoint",
    "clock",
    "unclean election",
    "quota",
]
LEADER = "leader"
"""Target: the controller that leads at that moment."""
SOURCE, COPIED, QUERIED = "events", "copied", "queried"
SAVED = "saved"
"""The copy of the topic that may lose records; its writer and its copier are the last ones of their kind."""
UNSAFE = "unsafe"
"""Target: the topic that may lose records, which has two replicas and unclean leader elections."""
GROUPS = ("brokers", "controllers", "zookeepers", "krafts")
"""Targets: all hosts of a kind. Of brokers an outage leaves one, number ``amount``, so that partitions have a leader."""
QUOTAS = {
    "controller_mutation_rate": (0.1, 2.0),
    "producer_byte_rate": (20_000.0, 500_000.0),
    "consumer_byte_rate": (20_000.0, 500_000.0),
    "request_percentage": (1.0, 30.0),
}
"""Targets: quotas of Kafka, for each client, with the least and the most that is allowed."""
QUIET = 20.0
"""Seconds of a rest in which processes are measured."""


@dataclass(frozen=True)
class Fault:
    """``target`` is a host, a kind of hosts, a topic, or a quota; ``other`` the second one of a link. ``amount``: part that is
    lost, seconds of delay or of a jump of the clock, number of a partition or of a broker, what a quota allows."""

    kind: Kind
    target: str
    seconds: float
    other: str | None = None
    amount: float = 0.0


@dataclass(frozen=True)
class Round:
    """Faults at the same time, and a rest after they are taken back. ``quiet``: processes are measured in it."""

    faults: tuple[Fault, ...]
    rest: float
    quiet: bool = False


@dataclass(frozen=True)
class Hosts:
    """Names by kind. ``krafts`` are KRaft controllers; ``static`` are those clients that have a ``group.instance.id``, ``drivers``
    those that Spark's ``workers`` work for."""

    brokers: tuple[str, ...]
    zookeepers: tuple[str, ...]
    controllers: tuple[str, ...]
    krafts: tuple[str, ...]
    clients: tuple[str, ...]
    static: tuple[str, ...]
    drivers: tuple[str, ...] = ()
    masters: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        """All but clients."""
        kafkas = (*self.brokers, *self.zookeepers, *self.controllers, *self.krafts)
        return (*kafkas, *self.masters, *self.workers)


_WEIGHTS: dict[Kind, int] = {
    "kill": 20,
    "pause": 14,
    "replace": 4,
    "restart": 6,
    "roll": 4,
    "outage": 5,
    "cut": 10,
    "one-way cut": 8,
    "isolate": 6,
    "delay": 6,
    "loss": 6,
    "expire": 6,
    "log dir": 4,
    "full disk": 3,
    "full checkpoint": 3,
    "clock": 4,
    "unclean election": 3,
    "quota": 4,
}


def rounds(seed: int, hosts: Hosts) -> Iterator[Round]:
    """Without an end. The same seed and hosts give the same rounds. Every fifth rest is long and quiet."""
    rng = random.Random(seed)
    kinds: list[Kind] = []
    number = 0
    while True:
        number += 1
        if not kinds:
            kinds = _deck(rng, hosts)
        faults = [_fault(rng, kinds.pop(), hosts)]
        # A writer that is killed amid an unclean election may leave a transaction that nothing ends.
        if rng.random() < 0.5 and faults[0].kind != "unclean election":
            faults.append(_mild(rng, hosts))
        quiet = number % 5 == 0
        yield Round(tuple(faults), QUIET if quiet else round(rng.uniform(1.0, 4.0), 1), quiet)


def _deck(rng: random.Random, hosts: Hosts) -> list[Kind]:
    """Kinds to come. A deck has about each kind once, so that a short run, too, has most of them."""
    weights = {
        kind: weight for kind, weight in _WEIGHTS.items() if hosts.drivers or kind != "full checkpoint"
    }
    deck = [*weights, *rng.choices([*weights], [*weights.values()], k=len(weights))]
    rng.shuffle(deck)
    return deck


def _mild(rng: random.Random, hosts: Hosts) -> Fault:
    """A further fault, of a client."""
    return Fault("kill", rng.choice(hosts.clients), round(rng.uniform(0.5, 3.0), 1))


def _fault(rng: random.Random, kind: Kind, hosts: Hosts) -> Fault:
    seconds = round(rng.uniform(3.0, 12.0), 1)
    match kind:
        case "kill" | "restart":
            return Fault(kind, _any(rng, hosts), round(rng.uniform(0.2, 6.0), 1))
        case "pause":
            # Longer than sessions of brokers, controllers and members, and than the timeout of transactions.
            return Fault(kind, _any(rng, hosts), round(rng.uniform(5.0, 16.0), 1))
        case "replace":
            # Longer than its session, too: then it would take its place back.
            return Fault(kind, rng.choice(hosts.static), round(rng.uniform(5.0, 16.0), 1))
        case "roll":
            return Fault(kind, rng.choice(GROUPS), 0.0)
        case "outage":
            return Fault(kind, rng.choice(GROUPS), seconds, amount=float(rng.randrange(len(hosts.brokers))))
        case "cut" | "one-way cut":
            target, other = _link(rng, hosts)
            return Fault(kind, target, seconds, other)
        case "isolate":
            alone = (*hosts.brokers, *hosts.controllers, *hosts.zookeepers, *hosts.krafts, *hosts.workers)
            return Fault(kind, rng.choice(alone), seconds)
        case "delay":
            target, other = _link(rng, hosts)
            return Fault(kind, target, seconds, other, round(rng.uniform(0.05, 1.0), 2))
        case "loss":
            target, other = _link(rng, hosts)
            return Fault(kind, target, seconds, other, round(rng.uniform(0.02, 0.3), 2))
        case "expire":
            return Fault(kind, _controller(rng, hosts), round(rng.uniform(6.0, 12.0), 1))
        case "log dir" | "full disk":
            return Fault(kind, rng.choice(hosts.brokers), round(rng.uniform(6.0, 15.0), 1))
        case "full checkpoint":
            return Fault(kind, rng.choice(hosts.drivers), seconds)
        case "clock":
            return Fault(
                kind,
                _controller(rng, hosts),
                seconds,
                amount=float(rng.choice((-86400, -3600, 60, 3600, 86400))),
            )
        case "unclean election":
            return Fault(kind, UNSAFE, round(rng.uniform(0.5, 3.0), 1), amount=float(rng.randrange(2)))
        case "quota":
            name = rng.choice([*QUOTAS])
            # Kafka takes a fraction of a partition and of a percent, not of a byte.
            digits = 0 if name.endswith("byte_rate") else 1
            return Fault(kind, name, seconds, amount=round(rng.uniform(*QUOTAS[name]), digits))
    raise ValueError(kind)


def _controller(rng: random.Random, hosts: Hosts) -> str:
    return LEADER if rng.random() < 0.6 else rng.choice(hosts.controllers)


def _any(rng: random.Random, hosts: Hosts) -> str:
    groups: tuple[Sequence[str], ...] = (
        hosts.brokers,
        hosts.controllers,
        hosts.zookeepers,
        hosts.krafts,
        hosts.clients,
        hosts.masters,
        hosts.workers,
    )
    weights = (30, 25, 15, 5, 25, 3, 15)
    group = rng.choices(
        groups, [weight if some else 0 for weight, some in zip(weights, groups, strict=True)]
    )[0]
    return _controller(rng, hosts) if group is hosts.controllers else rng.choice(group)


def _link(rng: random.Random, hosts: Hosts) -> tuple[str, str]:
    """Two hosts that have something to say to each other, in any order."""
    kinds: tuple[tuple[Sequence[str], Sequence[str]], ...] = (
        (hosts.clients, hosts.brokers),
        (hosts.clients, hosts.controllers),
        (hosts.controllers, hosts.zookeepers),
        (hosts.controllers, hosts.brokers),
        (hosts.brokers, hosts.brokers),
        (hosts.brokers, hosts.krafts),
        (hosts.krafts, hosts.krafts),
        (hosts.zookeepers, hosts.zookeepers),
        (hosts.drivers, hosts.workers),
        (hosts.workers, hosts.brokers),
        (hosts.workers, hosts.controllers),
    )
    some, others = rng.choice([pair for pair in kinds if all(pair)])
    target = rng.choice(some)
    pair = [target, rng.choice([other for other in others if other != target])]
    rng.shuffle(pair)
    return pair[0], pair[1]
