"""``ordered-kafka doctor``: looks at everything that order depends on, and says what to do."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.findings import EXIT_CODES, Finding, worst
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, client_conf
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.version import __version__

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import Diagnostics, TopicSummary
    from spark_ordered_kafka.config import Connection

app = command_group("doctor")
_CONNECT = 5.0
_MOST_GROUPS = 200
# Seconds for all topics, and for all groups: servers that answer slowly must not keep the rest from being reported.
_PATIENCE = 60.0
# For each, where they are too many for a minute: of 1,000 topics, servers on a busy machine took 0.07 s for one.
_PATIENCE_EACH = 0.1
# Topics of which the cluster is asked: with some of them there may be something wrong.
_SOME = 10
_SERVERS = "see the errors of controllers and brokers"
_CONTROLLERS = "see the errors of controllers"
_RIGHT = "give the user that right, or run this as a user who has it"
# What to do about an error, where that depends on it alone.
_ADVICE = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _RIGHT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _RIGHT,
    ErrorCode.UNKNOWN_SERVER_ERROR: "restore what is not readable in ZooKeeper from a backup (docs/controllers.md); the "
    "controller's log has the cause of any other such error",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "ordered-kafka topics create makes it anew, topics delete forgets it",
    ErrorCode.LOG_TRUNCATED: "ordered-kafka topics adopt takes up the topic that Kafka has under this name",
}
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
    2 with errors. The clocks of brokers are not checked: Kafka does not report them.
    """
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.options import consumer_options

    conf = client_conf(bootstrap_server, controller, command_config) | {"group.id": "doctor"}
    connection = consumer_options(conf).connection
    with ControllerClient.of(connection) as client:
        findings = _Examination(client, connection).run()
    if output.is_data:
        common.print_data({"worst": worst(findings), "findings": [asdict(one) for one in findings]}, output)
    else:
        for one in findings:
            typer.echo(_shown(one))
    raise typer.Exit(EXIT_CODES[worst(findings)])


def _shown(one: Finding) -> str:
    from textwrap import fill

    from spark_ordered_kafka.parsing import printable

    def wrapped(text: str, indent: int) -> str:
        # Names and addresses must not be cut into two words.
        return fill(
            printable(text),
            width=80,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )

    line = wrapped(f"{one.status:<8}{one.check}: {one.message}", 8)
    return f"{line}\n{wrapped(f'        do: {one.advice}', 12)}" if one.advice else line


@dataclass
class _Examination:
    """Asks everything, and notes what it finds."""

    client: ControllerClient
    connection: Connection
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> list[Finding]:
        """What is found, in the order in which it is to be read."""
        from confluent_kafka import libversion

        from spark_ordered_kafka.cli.findings import of_brokers, of_rights, of_zookeeper

        shown = f"spark-ordered-kafka {__version__}, Python {platform.python_version()}, librdkafka {libversion()[0]}"
        self.say(Finding("versions", "ok", shown))
        reports = self.controllers()
        brokers = self.ask("brokers", self.client.brokers, "see the errors of controllers and rights")
        listed = self.ask("topics", self.client.topics, _CONTROLLERS)
        managed = [] if listed is None else listed.topics
        is_reached = self.reach(managed)
        if brokers is not None:
            self.say(*of_brokers(brokers))
        for report in reports.values():
            is_production = brokers is not None and len(brokers.brokers) > 1
            self.say(*of_zookeeper(report, is_production=is_production), of_rights(report))
        self.topics(managed)
        if is_reached:
            self.groups()
        return self.findings

    def say(self, *findings: Finding) -> None:
        """Note them, each once: several controllers say the same of one ensemble."""
        self.findings = list(dict.fromkeys([*self.findings, *findings]))

    def ask(
        self,
        check: str,
        question: Callable[[], T],
        advice: str,
        is_over: Callable[[OrderedKafkaError], bool] = lambda _: False,
    ) -> T | None:
        """An answer; None where there is none; that is reported. ``is_over``: what was asked about is gone since it was listed."""
        try:
            return question()
        except OrderedKafkaError as error:
            if not is_over(error):
                own = _ADVICE.get(error.code) if isinstance(error, RequestError) else None
                self.say(Finding(check, "error", str(error), advice if own is None else own))
            return None

    def has_left(self, topic: str) -> Callable[[OrderedKafkaError], bool]:
        """Whether a topic was deleted or released by now, as a function; False when no controller answers."""

        def is_over(error: OrderedKafkaError) -> bool:
            # The list leaves out what cannot be read, which this says of a topic.
            if isinstance(error, RequestError) and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                return False
            try:
                return all(row.topic != topic for row in self.client.topics().topics)
            except OrderedKafkaError:
                return False

        return is_over

    def controllers(self) -> dict[str, Diagnostics]:
        """What each controller says of itself, by its URL."""
        from spark_ordered_kafka.cli.findings import of_clock, of_controllers
        from spark_ordered_kafka.client.controller import ControllerClient

        advice = "ordered-kafka controller run --config FILE starts one; controller.url must name it"
        listed = self.ask("controllers", self.client.controllers, advice)
        reports: dict[str, Diagnostics] = {}
        for row in [] if listed is None else listed.controllers:
            begun, at = time.time(), time.monotonic()
            advice = f"clients are redirected to {row.url}: it must be reached from here (advertised.url, name service, firewall)"
            with ControllerClient(row.url, credentials=self.connection.credentials) as one:
                report = self.ask("controllers", one.diagnostics, advice)
            if report is not None:
                reports[row.url] = report
                taken = time.monotonic() - at
                # It reads its clock at the end.
                now = begun + taken
                counted = None if report.counted_time is None else report.counted_time - now
                self.say(of_clock(row.url, report.time - now, counted, taken))
        if listed is not None:
            self.say(*of_controllers(reports, listed.leader, __version__))
        return reports

    def reach(self, topics: Sequence[TopicSummary]) -> bool:
        """Every broker by the name that it advertises, and whether it is the cluster that the controllers manage.

        Whether any is reached.
        """
        from spark_ordered_kafka.kafka.clients import wait_for
        from spark_ordered_kafka.kafka.descriptions import Descriptions

        servers = self.connection.bootstrap_servers
        with Descriptions(self.connection.kafka) as descriptions:
            found = self.ask(
                "brokers",
                lambda: wait_for(
                    descriptions.cluster(_CONNECT), _CONNECT, f"asking {servers} for the cluster"
                ),
                "check --bootstrap-server, security.protocol and the login in --command-config",
            )
        if found is None:
            return False
        reached = [_reached(node) for node in found.nodes]
        self.say(*reached)
        for managed in self.managed_clusters(topics) - {found.cluster_id}:
            what = f"{servers} leads to the cluster {found.cluster_id}, the controllers manage {managed}"
            self.say(Finding("brokers", "error", what, "give the brokers and the controllers of one cluster"))
        return any(one.status == "ok" for one in reached)

    def managed_clusters(self, topics: Sequence[TopicSummary]) -> set[str]:
        """The ids of clusters that the controllers manage: one, where there is a topic that can be read."""
        some = [(row.topic, row.layout_epoch) for row in topics[:_SOME]]
        answers = self.ask("topics", partial(self.client.layouts, some), _CONTROLLERS)
        return {one.cluster_id for one in answers or () if not isinstance(one, RequestError)}

    def topics(self, listed: Sequence[TopicSummary]) -> None:
        """Of the replicas of all topics, and of those under management, which the controllers have ``listed``."""
        from spark_ordered_kafka.cli.findings import of_partitions

        everything = self.ask("partitions", lambda: self.client.kafka_topics(configs=True), _SERVERS)
        if everything is None:
            return
        self.say(*of_partitions(everything.topics))
        # What another tool has deleted is on the controllers' list alone, and what cannot be read on Kafka's.
        shown = {one.topic for one in everything.topics if one.managed}
        managed = sorted(shown.union(one.topic for one in listed))
        if not self.each("topics", managed, _Examination.topic):
            what = "no foreign writers, no partitions beyond a layout, nothing hangs or is held up"
            self.say(Finding("topics", "ok", f"{len(managed)} under management: {what}"))

    def topic(self, topic: str) -> None:
        """Of one under management."""
        from spark_ordered_kafka.cli.findings import of_hanging, of_topic

        is_over = self.has_left(topic)
        view = self.ask("topics", partial(self.client.topic, topic, details=True), _SERVERS, is_over)
        if view is None:
            return
        foreign = self.ask("writers", partial(self.client.foreign_producers, topic), _SERVERS, is_over)
        self.say(*of_topic(view, foreign))
        asked = partial(self.client.hanging_transactions, topic)
        hanging = self.ask("transactions", asked, _SERVERS, is_over)
        if hanging is not None:
            self.say(*of_hanging(hanging, self.connection.bootstrap_servers))

    def groups(self) -> None:
        """Of the consumer groups."""
        from spark_ordered_kafka.client.group_admin import GroupAdmin

        advice = "give the user DESCRIBE on groups, or on the cluster"
        listed = self.ask("groups", GroupAdmin(self.connection.kafka).groups, advice)
        groups = [one.group for one in listed or () if not one.is_ledger]
        has_found = self.each("groups", groups[:_MOST_GROUPS], _Examination.group)
        if len(groups) > _MOST_GROUPS:
            left = f"{len(groups) - _MOST_GROUPS} of {len(groups)} groups were not looked at"
            self.say(Finding("groups", "ok", left))
        if listed is not None and not has_found:
            ok = f"{min(len(groups), _MOST_GROUPS)} groups, none without members holds keys up"
            self.say(Finding("groups", "ok", ok))

    def group(self, group: str) -> None:
        """Of one of them."""
        from spark_ordered_kafka.cli.findings import of_group

        positions = self.ask(
            "groups",
            partial(self.client.group_positions, group),
            "see above",
            lambda error: error.code == ErrorCode.GROUP_ID_NOT_FOUND,
        )
        if positions is not None:
            self.say(*of_group(positions))

    def each(self, what: str, names: Sequence[str], look: Callable[[_Examination, str], None]) -> bool:
        """Look at each, for as long as servers that answer slowly may keep the rest waiting; whether anything was found."""
        patience = max(_PATIENCE, _PATIENCE_EACH * len(names))
        deadline = time.monotonic() + patience

        def found(name: str) -> list[Finding] | None:
            if time.monotonic() >= deadline:
                return None
            own = replace(self, findings=[])
            look(own, name)
            return own.findings

        answers = common.at_once(found, names)
        self.say(*(one for answer in answers for one in answer or ()))
        if missing := answers.count(None):
            shown = f"{missing} of {len(names)} were not looked at within {patience:g} s"
            advice = f"the servers are slow, or far away: ordered-kafka {what} describe shows one of them"
            self.say(Finding(what, "warning", shown, advice))
        return any(answer != [] for answer in answers)


def _reached(node: Any) -> Finding:
    from spark_ordered_kafka.parsing import host_port

    address = host_port(node.host, node.port)
    try:
        socket.create_connection((node.host, node.port), _CONNECT).close()
    except OSError as error:
        what = f"broker {node.id} advertises {address}, which this machine does not reach: {error}"
        advice = "set the broker's advertised.listeners to a name that clients resolve, and open the port"
        return Finding("brokers", "error", what, advice)
    return Finding("brokers", "ok", f"broker {node.id} is reached at {address}")
