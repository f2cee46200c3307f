"""``ordered-kafka doctor``: looks at everything that order depends on, and says what to do."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.findings import EXIT_CODES, Finding
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, client_conf
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.version import __version__

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import Diagnostics
    from spark_ordered_kafka.config import Connection

app = command_group("doctor")
_CONNECT = 5.0
_MOST_GROUPS = 200
# Seconds for all topics, and for all groups: servers that answer slowly must not keep the rest from being told.
_PATIENCE = 60.0
_SERVERS = "see the errors of controllers and brokers"
_RIGHTS = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
T = TypeVar("T")


@app.command()
def doctor(
    bootstrap_server: BootstrapServerOption = None,
    controller: common.ControllerOption = None,
    command_config: KafkaConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Check versions, controllers, clocks, ZooKeeper, rights, brokers, partitions, writers, transactions and groups.

    Run it on a machine of a client: it connects as one. Changes nothing. The exit code is 0 if all is well, 1 with warnings,
    2 with errors. The clocks of brokers are not checked: Kafka does not tell them.
    """
    from spark_ordered_kafka.cli.findings import worst
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.options import consumer_options

    conf = client_conf(bootstrap_server, controller, command_config) | {"group.id": "doctor"}
    connection = consumer_options(conf).connection
    with ControllerClient.of(connection) as client:
        findings = list(_findings(client, connection))
    if output.is_data:
        common.print_data({"worst": worst(findings), "findings": [asdict(one) for one in findings]}, output)
    else:
        for one in findings:
            typer.echo(_shown(one))
    raise typer.Exit(EXIT_CODES[worst(findings)])


def _shown(one: Finding) -> str:
    from textwrap import fill

    from spark_ordered_kafka.parsing import printable

    # Names and addresses must not be cut into two words.
    line = fill(
        f"{one.status:<8}{one.check}: {printable(one.message)}",
        width=80,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not one.advice:
        return line
    advice = fill(
        f"        do: {printable(one.advice)}",
        width=80,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{line}\n{advice}"


def _findings(client: ControllerClient, connection: Connection) -> Iterator[Finding]:
    from confluent_kafka import libversion

    yield Finding(
        "versions",
        "ok",
        f"spark-ordered-kafka {__version__}, Python {platform.python_version()}, librdkafka {libversion()[0]}",
    )
    reports, failures = _controllers(client, connection)
    yield from failures
    brokers, failure = _asked("brokers", client.brokers, "see the errors of controllers and rights")
    yield from failure
    reachable = list(_reachable(connection, client))
    yield from reachable
    if brokers is not None:
        from spark_ordered_kafka.cli.findings import of_brokers

        yield from of_brokers(brokers)
    if reports:
        from spark_ordered_kafka.cli.findings import of_rights, of_zookeeper

        for report in reports.values():
            is_production = brokers is not None and len(brokers.brokers) > 1
            yield from of_zookeeper(report, is_production=is_production)
            yield of_rights(report)
    yield from _topics(client, connection)
    if any(one.status == "ok" for one in reachable):
        yield from _groups(client, connection)


def _asked(
    check: str,
    ask: Callable[[], T],
    advice: str,
    is_over: Callable[[OrderedKafkaError], bool] = lambda _: False,
) -> tuple[T | None, list[Finding]]:
    """An answer, or the finding that there is none. ``is_over``: what was asked about is gone since it was listed."""
    try:
        return ask(), []
    except OrderedKafkaError as error:
        if is_over(error):
            return None, []
        if error.code in _RIGHTS:
            advice = "give the user that right, or run this as a user who has it"
        return None, [Finding(check, "error", str(error), advice)]


def _has_left(client: ControllerClient, topic: str) -> Callable[[OrderedKafkaError], bool]:
    """Says whether a topic has been deleted, or released; not where nobody answers."""

    def is_over(_: OrderedKafkaError) -> bool:
        try:
            return all(row.topic != topic for row in client.topics().topics)
        except OrderedKafkaError:
            return False

    return is_over


def _controllers(
    client: ControllerClient, connection: Connection
) -> tuple[dict[str, Diagnostics], list[Finding]]:
    """What each controller says of itself, by its URL, and what is to be said of all."""
    from spark_ordered_kafka.cli.findings import of_clock, of_controllers
    from spark_ordered_kafka.client.controller import ControllerClient

    advice = "ordered-kafka controller run --config FILE starts one; controller.url must name it"
    listed, findings = _asked("controllers", client.controllers, advice)
    reports: dict[str, Diagnostics] = {}
    for row in [] if listed is None else listed.controllers:
        begun, at = time.time(), time.monotonic()
        with ControllerClient(row.url, credentials=connection.credentials) as one:
            report, failure = _asked(
                "controllers",
                one.diagnostics,
                f"clients are redirected to {row.url}: it must be reached from here (advertised.url, name service, firewall)",
            )
        findings += failure
        if report is not None:
            reports[row.url] = report
            taken = time.monotonic() - at
            # It reads its clock at the end.
            now = begun + taken
            counted = None if report.counted_time is None else report.counted_time - now
            findings.append(of_clock(row.url, report.time - now, counted, taken))
    if listed is not None:
        findings += of_controllers(reports, listed.leader, __version__)
    return reports, findings


def _reachable(connection: Connection, client: ControllerClient) -> Iterator[Finding]:
    """Every broker by the name that it advertises, and whether it is the cluster that the controllers manage."""
    from confluent_kafka.admin import AdminClient

    from spark_ordered_kafka.kafka.clients import wait_for
    from spark_ordered_kafka.kafka.properties import admin_properties

    admin = AdminClient(admin_properties(connection.kafka))
    servers = connection.bootstrap_servers
    found, failure = _asked(
        "brokers",
        lambda: wait_for(
            admin.describe_cluster(request_timeout=_CONNECT), _CONNECT, f"asking {servers} for the cluster"
        ),
        "check --bootstrap-server, security.protocol and the login in --command-config",
    )
    yield from failure
    if found is None:
        return
    for node in found.nodes:
        try:
            socket.create_connection((node.host, node.port), _CONNECT).close()
        except OSError as error:
            yield Finding(
                "brokers",
                "error",
                f"broker {node.id} advertises {node.host}:{node.port}, which this machine does not reach: {error}",
                "set the broker's advertised.listeners to a name that clients resolve, and open the port",
            )
        else:
            yield Finding("brokers", "ok", f"broker {node.id} is reached at {node.host}:{node.port}")
    managed, failure = _asked("topics", client.topics, "see the errors of controllers")
    yield from failure
    for row in [] if managed is None else managed.topics[:1]:
        view, failure = _asked(
            "topics",
            partial(client.topic, row.topic),
            "see the errors of controllers",
            _has_left(client, row.topic),
        )
        yield from failure
        if view is not None and view.cluster_id != found.cluster_id:
            yield Finding(
                "brokers",
                "error",
                f"{servers} leads to the cluster {found.cluster_id}, the controllers manage {view.cluster_id}",
                "give the brokers and the controllers of one cluster",
            )


def _topics(client: ControllerClient, connection: Connection) -> Iterator[Finding]:
    from spark_ordered_kafka.cli.findings import of_partitions

    everything, failure = _asked("partitions", lambda: client.kafka_topics(configs=True), _SERVERS)
    yield from failure
    if everything is None:
        return
    yield from of_partitions(everything.topics)
    managed = [one.topic for one in everything.topics if one.managed]
    findings: list[Finding] = []
    deadline = time.monotonic() + _PATIENCE
    for index, topic in enumerate(managed):
        if time.monotonic() >= deadline:
            findings.append(_unseen("topics", len(managed) - index, len(managed)))
            break
        findings += _of_topic(client, connection, topic)
    yield from findings
    if not findings:
        yield Finding(
            "topics",
            "ok",
            f"{len(managed)} under management: no foreign writers, no strays, nothing hangs or is held up",
        )


def _of_topic(client: ControllerClient, connection: Connection, topic: str) -> Iterator[Finding]:
    from spark_ordered_kafka.cli.findings import of_hanging, of_topic

    is_over = _has_left(client, topic)
    view, failure = _asked("topics", partial(client.topic, topic, details=True), _SERVERS, is_over)
    yield from failure
    foreign, failure = _asked("writers", partial(client.foreign_producers, topic), _SERVERS, is_over)
    yield from failure
    yield from [] if view is None else of_topic(view, foreign)
    hanging, failure = _asked("transactions", partial(client.hanging_transactions, topic), _SERVERS, is_over)
    yield from failure
    yield from [] if hanging is None else of_hanging(hanging, connection.bootstrap_servers)


def _unseen(what: str, missing: int, count: int) -> Finding:
    return Finding(
        what,
        "warning",
        f"{missing} of {count} were not looked at within {_PATIENCE:g} s",
        f"the servers are slow, or far away: ordered-kafka {what} describe shows one of them",
    )


def _groups(client: ControllerClient, connection: Connection) -> Iterator[Finding]:
    from spark_ordered_kafka.cli.findings import of_group
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    listed, failure = _asked(
        "groups", GroupAdmin(connection.kafka).groups, "give the user DESCRIBE on groups, or on the cluster"
    )
    yield from failure
    groups = [one.group for one in listed or () if not one.is_ledger]
    findings: list[Finding] = []
    deadline = time.monotonic() + _PATIENCE
    for index, group in enumerate(asked := groups[:_MOST_GROUPS]):
        if time.monotonic() >= deadline:
            findings.append(_unseen("groups", len(asked) - index, len(asked)))
            break
        positions, failure = _asked(
            "groups",
            partial(client.group_positions, group),
            "see above",
            lambda error: error.code == ErrorCode.GROUP_ID_NOT_FOUND,
        )
        findings += failure
        findings += [] if positions is None else of_group(positions)
    yield from findings
    if len(groups) > _MOST_GROUPS:
        yield Finding(
            "groups", "ok", f"{len(groups) - _MOST_GROUPS} of {len(groups)} groups were not looked at"
        )
    if listed is not None and not findings:
        yield Finding(
            "groups", "ok", f"{min(len(groups), _MOST_GROUPS)} groups, none without members holds keys up"
        )
