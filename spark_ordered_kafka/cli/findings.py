"""What ``ordered-kafka doctor`` finds: judgements of answers, each with what to do about it. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from spark_ordered_kafka.cli.topic_filters import FILTERS, UNAVAILABLE, UNDER_MIN_ISR, UNDER_REPLICATED
from spark_ordered_kafka.listed import listed

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import (
        BrokerList,
        Diagnostics,
        ForeignProducers,
        GroupPositions,
        HangingTransactionList,
        HangingTransactionView,
        KafkaTopicView,
        TopicView,
    )

Status = Literal["ok", "warning", "error"]
EXIT_CODES: Mapping[Status, int] = {"ok": 0, "warning": 1, "error": 2}
_SKEW, _GREAT_SKEW = 1.0, 30.0
_MANY_IDS = 10_000
_NAMED = 5


@dataclass(frozen=True)
class Finding:
    """``advice``: what to do, with a command where there is one; empty for what is well."""

    check: str
    status: Status
    message: str
    advice: str = ""


def worst(findings: Collection[Finding]) -> Status:
    """The status of all together."""
    return max((one.status for one in findings), key=lambda status: EXIT_CODES[status], default="ok")


def of_controllers(reports: Mapping[str, Diagnostics], leader: str | None, own_version: str) -> list[Finding]:
    """Of the controllers that answered, by URL."""
    found = list(_of_controllers(reports, leader))
    if found or not reports:
        return found
    version = next(iter(reports.values())).version
    than = "" if version == own_version else f" (this command has {own_version})"
    ok = f"{len(reports)} of version {version}{than}, with one configuration; {leader} leads"
    return [Finding("controllers", "ok", ok)]


def _of_controllers(reports: Mapping[str, Diagnostics], leader: str | None) -> Iterator[Finding]:
    if leader is None:
        yield Finding(
            "controllers", "error", "no controller leads: nothing can be changed",
            "look into the logs of the controllers; one takes over within zookeeper.session.timeout.ms (6 s)",
        )  # fmt: skip
    versions = Counter(one.version for one in reports.values())
    if len(versions) > 1:
        shown = ", ".join(f"{url} {one.version}" for url, one in sorted(reports.items()))
        yield Finding(
            "controllers", "warning", f"versions differ: {shown}",
            "end the upgrade: stop one after the other, and start it with the newest version",
        )  # fmt: skip
    for name in sorted({name for one in reports.values() for name in one.settings}):
        values = {url: one.settings.get(name, "not known") for url, one in sorted(reports.items())}
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{url}: {value}" for url, value in values.items())
            yield Finding(
                "controllers", "warning", f"{name} differs ({shown}): a take-over changes the rules",
                f"give all of them the same {name}, and start them again one after the other",
            )  # fmt: skip


def of_clock(url: str, skew: float, counted_skew: float | None, error: float) -> Finding:
    """Both in seconds ahead of this machine's clock, known to within ``error``.

    ``skew``: of the clock of the controller's machine. ``counted_skew``: of the time that the controller has counted since its start,
    None if not known.
    """
    allowed = max(_SKEW, error)
    if abs(skew) > allowed:
        return Finding(
            "clocks", _of_skew(skew, error), f"the clock of {url} is {_shown_skew(skew)} this machine's",
            "synchronize both clocks: chronyc tracking, or timedatectl timesync-status, on both shows by what",
        )  # fmt: skip
    if counted_skew is not None and abs(counted_skew) > allowed:
        return Finding(
            "clocks", _of_skew(counted_skew, error),
            f"the clock of {url} is right by now, but the controller goes by a time that is {_shown_skew(counted_skew)} "
            "it: it counts on from the clock at its start",
            "start that controller again: systemctl restart ordered-kafka-controller",
        )  # fmt: skip
    return Finding("clocks", "ok", f"{url} and this machine agree within {allowed:.1f} s")


def _of_skew(skew: float, error: float) -> Status:
    return "error" if abs(skew) > _GREAT_SKEW + error else "warning"


def _shown_skew(skew: float) -> str:
    return f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'}"


def of_zookeeper(report: Diagnostics, *, is_production: bool) -> list[Finding]:
    """Of the ensemble as one controller sees it. ``is_production``: there are several brokers."""
    shown = ", ".join(f"{one.address} {one.mode} {one.version or ''}".rstrip() for one in report.zookeeper)
    return list(_of_zookeeper(report, is_production)) or [Finding("zookeeper", "ok", shown)]


def _of_zookeeper(report: Diagnostics, is_production: bool) -> Iterator[Finding]:
    silent = [one for one in report.zookeeper if one.error is not None]
    for one in silent:
        yield Finding(
            "zookeeper", "error", f"{one.address} does not answer {report.url}: {one.error}",
            "start that server, or take it out of zookeeper.connect; srvr must be in its 4lw.commands.whitelist",
        )  # fmt: skip
    modes = Counter(one.mode for one in report.zookeeper if one.error is None)
    if "standalone" in modes and is_production:
        yield Finding(
            "zookeeper", "warning", "a single server: while it is away, nothing can be changed or read anew",
            "run an ensemble of three, and name all of them in zookeeper.connect",
        )  # fmt: skip
    elif "standalone" not in modes and modes.get("leader", 0) != 1 and not silent:
        yield Finding(
            "zookeeper", "warning", f"{modes.get('leader', 0)} of the servers in zookeeper.connect lead",
            "name all servers of one ensemble, and of that alone, in zookeeper.connect",
        )  # fmt: skip
    if report.znodes_open:
        yield Finding(
            "zookeeper", "warning", "every client that reaches ZooKeeper may alter the controllers' znodes",
            "set zookeeper.digest.username and zookeeper.digest.password (docs/security.md), or close its port to others",
        )  # fmt: skip
    if report.unknown_znodes:
        yield Finding(
            "zookeeper", "warning",
            f"znodes that this version does not know: {listed(report.unknown_znodes, _NAMED)}",
            "a newer controller has made them, or something else: look before you delete one",
        )  # fmt: skip


def of_rights(report: Diagnostics) -> Finding:
    """Of the controllers' rights in Kafka."""
    if not report.missing_rights:
        return Finding(
            "rights",
            "ok",
            f"{report.url} has what it needs on the cluster, topics under management, their writers and groups",
        )
    return Finding(
        "rights", "error", f"{report.url} lacks in Kafka: {listed(report.missing_rights, _NAMED)}",
        "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:NAME --operation OPERATION "
        "--cluster (or --topic TOPIC, --group NAME, --transactional-id NAME; for names that end with *: "
        "--resource-pattern-type prefixed, without the *)",
    )  # fmt: skip


def of_brokers(brokers: BrokerList) -> list[Finding]:
    """Of the brokers, as the controllers know them."""
    down = [str(one.id) for one in brokers.brokers if not one.alive]
    if down:
        return [
            Finding(
                "brokers", "error", f"down, with replicas: {listed(down, _NAMED)}",
                f"start them, or move their replicas: ordered-kafka reassign plan --drain {','.join(down)}",
            )
        ]  # fmt: skip
    return [Finding("brokers", "ok", f"all {len(brokers.brokers)} are up")]


def of_partitions(topics: Sequence[KafkaTopicView]) -> list[Finding]:
    """Of the replicas of all topics."""
    count = sum(len(one.partitions) for one in topics)
    ok = Finding("partitions", "ok", f"all {count} partitions have all replicas in sync")
    return list(_of_partitions(topics)) or [ok]


def _of_partitions(topics: Sequence[KafkaTopicView]) -> Iterator[Finding]:
    judgements: tuple[tuple[str, Status, str], ...] = (
        (UNAVAILABLE, "error", "without a leader: neither read nor written"),
        (UNDER_MIN_ISR, "error", "with fewer replicas in sync than min.insync.replicas: not written"),
        (UNDER_REPLICATED, "warning", "with replicas that are not in sync"),
    )
    named: set[tuple[str, int]] = set()
    for name, status, what in judgements:
        tps = [
            (one.topic, row.partition)
            for one in topics
            for row in one.partitions
            # Kafka demands no more replicas in sync than there are: one is written with min.insync.replicas=2, too.
            if FILTERS[name](one, row) and (row.leader < 0 or len(row.isr) < len(row.replicas))
        ]
        new = [tp for tp in tps if tp not in named]
        named |= set(new)
        if new:
            shown = listed(new, _NAMED, lambda tp: f"{tp[0]}-{tp[1]}")
            yield Finding(
                "partitions", status, f"{len(new)} {what}: {shown}",
                f"ordered-kafka topics describe {name}, then look after the brokers of their replicas",
            )  # fmt: skip


def of_topic(view: TopicView, foreign: ForeignProducers | None) -> Iterator[Finding]:
    """Of a topic under management; ``foreign`` None: not known."""
    if view.stray_partitions:
        yield Finding(
            "layouts", "warning",
            f"{view.topic} has partitions beyond its layout: {listed(view.stray_partitions, _NAMED)}",
            "something else has made them; a growth takes them up: ordered-kafka topics alter "
            f"--topic {view.topic} --partitions {len(view.partitions)}",
        )  # fmt: skip
    for one in () if foreign is None else foreign.producers:
        name = one.transactional_id or f"producer id {one.producer_id}"
        yield Finding(
            "writers", "warning",
            f"{view.topic}: {name} is no ordered writer and has written to partitions "
            f"{listed(one.partitions, _NAMED)}: the next change is refused",
            f"kafka-transactions --bootstrap-server HOST:PORT describe-producers --topic {view.topic} "
            f"--partition {one.partitions[0]} shows when; write with the sink, OrderedProducer or ordered-kafka produce",
        )  # fmt: skip
    ids = view.transactional_ids
    if ids is not None and ids.known > _MANY_IDS:
        yield Finding(
            "transactional ids", "warning",
            f"{view.topic}: {ids.known} are known, {ids.idle} of them idle: a change takes longer",
            "name writers (option writer), close OrderedProducers, or lower the brokers' "
            "transactional.id.expiration.ms",
        )  # fmt: skip
    yield from _of_marked(view)


def of_hanging(found: HangingTransactionList, servers: str) -> list[Finding]:
    """Of the transactions in a topic's logs that no coordinator will end. ``servers``: the brokers' addresses."""
    return [_of_hanging(found.topic, one, servers) for one in found.transactions]


def _of_hanging(topic: str, one: HangingTransactionView, servers: str) -> Finding:
    name = "" if one.transactional_id is None else f" of {one.transactional_id}"
    what = f"{topic}-{one.partition}: the transaction{name} (producer id {one.producer_id}) from offset {one.start_offset}"
    options = f"--topic {topic} --partition {one.partition}"
    if one.is_certain:
        return Finding(
            "transactions", "error",
            f"{what} hangs: no coordinator will end it, and readers of committed records stop there",
            f"kafka-transactions --bootstrap-server {servers} abort {options} --start-offset {one.start_offset} "
            "(needs ALTER or CLUSTER_ACTION on the cluster)",
        )  # fmt: skip
    return Finding(
        "transactions", "warning",
        f"{what} is open for more than 15 minutes, and the controllers may not describe whose it is: perhaps it hangs",
        f"kafka-transactions --bootstrap-server {servers} find-hanging {options}, as a user who may describe all "
        "transactional ids, tells",
    )  # fmt: skip


def _of_marked(view: TopicView) -> list[Finding]:
    waiting = sorted(
        {one.group for row in view.partitions if row.status == "marked" for one in row.waiting_groups or ()}
    )
    return [
        Finding(
            "groups", "warning",
            f"group {group} has not read removed partitions of {view.topic}, which stay until then",
            f"start its consumers; if it is not needed: ordered-kafka groups delete --group '{group}'",
        )
        for group in waiting
    ]  # fmt: skip


def of_group(positions: GroupPositions) -> Iterator[Finding]:
    """Of a consumer group: without members, while partitions that it has read wait for others."""
    for topic in positions.topics if positions.state in ("Empty", "Dead") else ():
        blocked = [row.partition for row in topic.partitions if row.waits_for and row.lag]
        if blocked:
            yield Finding(
                "groups", "warning",
                f"group {positions.group} has no members, and partitions {listed(blocked, _NAMED)} of "
                f"{topic.topic} wait for what it has not read of others",
                f"ordered-kafka groups describe --group '{positions.group}' shows for what; start its consumers",
            )  # fmt: skip
