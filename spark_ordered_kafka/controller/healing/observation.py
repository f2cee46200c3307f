"""What self-healing sees of a cluster, and what of that is not as it should be. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.client.schemas.healing import HealingAction, HealingKind
from spark_ordered_kafka.controller.healing.rules import Rules

_NOTABLE_RATE = 100_000.0
"""Bytes per second that brokers must lead on average before their difference counts."""
_ROOM = 0.1
"""Part of its volume by which another broker must be emptier, so that moving replicas off a full one helps."""

Key = tuple[HealingKind, str]
"""Kind and subject of a finding: a broker's id, with a path for a log directory; empty for the cluster."""


@dataclass(frozen=True)
class Directory:
    """A log directory: ``used`` bytes of replicas, ``free`` and ``total`` ones of its volume, None if not known.

    What is ``cordoned`` (KIP-1066) is filled or emptied on purpose: it is not evened out with others.
    """

    path: str
    online: bool = True
    used: int = 0
    free: int | None = None
    total: int | None = None
    cordoned: bool = False


@dataclass(frozen=True)
class ObservedBroker:
    """``hosted`` replicas; partitions that it leads, and that it would lead by the order of replicas (``preferred``).

    ``write_rate``: bytes per second that are written to the partitions which it leads, None until it is known.
    ``directories``: None where the broker did not answer.
    """

    id: int
    alive: bool = True
    hosted: int = 0
    leaders: int = 0
    preferred: int = 0
    write_rate: float | None = None
    directories: tuple[Directory, ...] | None = ()

    @property
    def kafka_share(self) -> float | None:
        """The part of its volumes that replicas take, without cordoned ones; None if not known."""
        return _part(
            [(one.used, one.total) for one in self.directories or () if one.online and not one.cordoned]
        )

    @property
    def disk_share(self) -> float | None:
        """The part of its volumes that is in use, by Kafka or anything else; None if not known."""
        known = [one for one in self.directories or () if one.online and one.total and one.free is not None]
        return max((1 - (one.free or 0) / (one.total or 1) for one in known), default=None)


@dataclass(frozen=True)
class Observation:
    """A cluster. ``displaced``: partitions that another replica leads than the preferred one, which is in sync.

    ``under_way``: what is being changed or waits for a review, in words; None: nothing.
    """

    brokers: tuple[ObservedBroker, ...]
    displaced: int = 0
    under_way: str | None = None

    @property
    def away(self) -> list[int]:
        """Brokers that have replicas and are not up."""
        return [one.id for one in self.brokers if not one.alive and one.hosted > 0]

    @property
    def failed(self) -> list[int]:
        """Brokers with an offline log directory."""
        return [
            one.id
            for one in self.brokers
            if one.alive and any(not directory.online for directory in one.directories or ())
        ]

    @property
    def silent(self) -> list[int]:
        """Brokers that are up and did not describe their log directories."""
        return [one.id for one in self.brokers if one.alive and one.directories is None]


@dataclass(frozen=True)
class Condition:
    """Something that is not as it should be, with its figures; ``action`` would help, None: nothing would."""

    key: Key
    reason: str
    action: HealingAction | None
    brokers: tuple[int, ...] = ()


def conditions(rules: Rules, observation: Observation, margin: float = 1.0) -> dict[Key, Condition]:
    """All conditions, by key. Differences and shares count from ``margin`` times the settings on."""
    found = [
        *_away(observation),
        *_offline(observation),
        *_leaders(rules, observation, margin),
        *_log_dirs(rules, observation, margin),
        *_disks(rules, observation, margin),
    ]
    return {one.key: one for one in found}


def _away(observation: Observation) -> Iterator[Condition]:
    for one in observation.brokers:
        if one.id in observation.away:
            reason = f"broker {one.id} is away, with {_counted(one.hosted, 'replica')}"
            yield Condition(("broker_away", str(one.id)), reason, "drain", (one.id,))


def _offline(observation: Observation) -> Iterator[Condition]:
    for one in observation.brokers:
        for directory in one.directories or () if one.alive else ():
            if not directory.online:
                reason = f"log directory {directory.path} of broker {one.id} is offline"
                key: Key = ("log_dir_offline", f"{one.id} {directory.path}")
                yield Condition(key, reason, "replace_replicas", (one.id,))


def _leaders(rules: Rules, observation: Observation, margin: float) -> Iterator[Condition]:
    alive = [one for one in observation.brokers if one.alive]
    limit = margin * rules.leader_difference
    led = _difference([one.leaders for one in alive])
    if led > limit and _apart([one.leaders for one in alive]) >= 2:
        counts = ", ".join(f"{one.id}: {one.leaders}" for one in _extremes(alive, "leaders"))
        reason = f"leaders by broker differ by {_percent(led)} of the mean ({counts})"
        preferred = _difference([one.preferred for one in alive])
        if observation.displaced and preferred < led:
            reason = f"{reason}; {observation.displaced} partitions are not led by their preferred replica"
            yield Condition(("leaders_uneven", ""), reason, "elect_leaders")
        else:
            yield Condition(("leaders_uneven", ""), reason, "balance_leaders")
    rates = [one.write_rate for one in alive if one.write_rate is not None]
    if len(rates) == len(alive) and rates and sum(rates) / len(rates) >= margin * _NOTABLE_RATE:
        written = _difference(rates)
        if written > limit:
            shown = ", ".join(
                f"{one.id}: {(one.write_rate or 0) / 1e6:.3g} MB/s" for one in _extremes(alive, "write_rate")
            )
            reason = (
                f"what is written to leaders differs by {_percent(written)} of the mean by broker ({shown})"
            )
            action: HealingAction = "elect_leaders" if observation.displaced else "balance_leaders"
            yield Condition(("leader_bytes_uneven", ""), reason, action)


def _log_dirs(rules: Rules, observation: Observation, margin: float) -> Iterator[Condition]:
    for one in observation.brokers:
        known = [d for d in one.directories or () if one.alive and d.online and d.total and not d.cordoned]
        shares = {d.path: d.used / (d.total or 1) for d in known}
        if shares and max(shares.values()) - min(shares.values()) > margin * rules.disk_difference:
            fullest, emptiest = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
            reason = (
                f"replicas take {_percent(shares[fullest])} of the volume of {fullest} and {_percent(shares[emptiest])} of that "
                f"of {emptiest} on broker {one.id}"
            )
            yield Condition(("log_dirs_uneven", str(one.id)), reason, "balance_log_dirs", (one.id,))


def _disks(rules: Rules, observation: Observation, margin: float) -> Iterator[Condition]:
    shares = {
        one.id: share for one in observation.brokers if one.alive and (share := one.kafka_share) is not None
    }
    if shares and max(shares.values()) - min(shares.values()) > margin * rules.disk_difference:
        fullest, emptiest = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
        reason = (
            f"replicas take {_percent(shares[fullest])} of the volumes of broker {fullest} and {_percent(shares[emptiest])} of "
            f"those of broker {emptiest}"
        )
        yield Condition(("disks_uneven", ""), reason, "balance")
    for one in observation.brokers:
        share = one.disk_share
        if one.alive and share is not None and share > margin * rules.disk_share:
            least = min(shares.values(), default=0.0)
            helps = shares.get(one.id, 0.0) - least >= _ROOM
            reason = f"a volume of broker {one.id} is used to {_percent(share)}" + (
                "" if helps else "; no other broker has replicas on a smaller part of its volumes"
            )
            yield Condition(("disk_full", str(one.id)), reason, "balance" if helps else None, (one.id,))


def _difference(values: Sequence[float]) -> float:
    """Between the largest and the smallest, as a part of the mean."""
    mean = sum(values) / len(values) if values else 0.0
    return _apart(values) / mean if mean > 0 else 0.0


def _apart(values: Sequence[float]) -> float:
    return max(values, default=0) - min(values, default=0)


def _extremes(brokers: Sequence[ObservedBroker], name: str) -> list[ObservedBroker]:
    ordered = sorted(brokers, key=lambda one: (-(getattr(one, name) or 0), one.id))
    return [ordered[0], ordered[-1]]


def _part(pairs: Sequence[tuple[int, int | None]]) -> float | None:
    total = sum(all_bytes or 0 for _, all_bytes in pairs)
    if total == 0 or any(all_bytes is None for _, all_bytes in pairs):
        return None
    return sum(used for used, _ in pairs) / total


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
