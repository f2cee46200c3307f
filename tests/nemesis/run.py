"""``make chaos``: a whole cluster under faults, operators and clients, and what the judge says of it."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.nemesis import judge
from tests.nemesis.cluster import Cluster, plan_servers
from tests.nemesis.journal import Event, Journal, parse
from tests.nemesis.nemesis import Nemesis
from tests.nemesis.network import INSIDE, Network, enter_namespaces, why_not
from tests.nemesis.nodes import Node, Supervisor
from tests.nemesis.operator import CHURN
from tests.nemesis.plan import COPIED, QUERIED, SAVED, SOURCE, UNSAFE, Hosts, rounds
from tests.nemesis.reading import TopicReader, open_transactions
from tests.nemesis.rights import CLIENT, OPERATOR, bindings
from tests.nemesis.spark import MASTER, WORKERS, SparkCluster, Way
from tests.nemesis.summary import summary
from tests.nemesis.watch import Watch, await_quietly, throttles
from tests.nemesis.writer import PACE

_WRITERS, _COPIERS, _KEYS = 2, 3, 12
_SECURE = 0.4
"""Part of the seeds whose cluster is secured."""
_LIMIT = 60
"""Of a broker's replicas, until an operator sets another: a short run has limits to be judged by as well."""
_GROUP, _UNSAFE_GROUP = "copiers", f"copiers of {UNSAFE}"
SETTLING = 300.0
"""Seconds after the last fault in which every change must end, and every reader reach the end."""
_READING = 60.0
"""Seconds to read what a copy has by then, where the copy before it took all of that time."""
_THROTTLES = 60.0
"""Seconds after the end of all reassignments in which their throttles must be gone."""
_FIRST = 180.0
"""Seconds for the first records to be copied, before the first fault."""


class Run:
    """One run, from the start of its servers to the verdict."""

    def __init__(
        self, directory: Path, seed: int, query: bool, rate: int, way: Way | None, secure: bool | None
    ) -> None:
        self.history = directory / "history.jsonl"
        self._directory = directory
        self._seed = seed
        self._way = way or random.Random(f"{seed} way").choice(list(Way))
        self._at_once = max(1, round(rate * PACE / (_WRITERS * _KEYS)))
        self._journal = Journal(self.history, "run")
        if secure is None:
            secure = random.Random(f"{seed} secure").random() < _SECURE
        state = plan_servers(secure=secure)
        self._topics = [SOURCE, COPIED, *([QUERIED] if query else [])]
        counts = {"writer": _WRITERS + 1, "copier": _COPIERS + 1, "operator": 1, "query": 1 if query else 0}
        names = [f"{role}-{number}" for role, count in counts.items() for number in range(1, count + 1)]
        sparks = (MASTER, *WORKERS) if query else ()
        self._network = Network("watch", [*(server.name for server in state.servers), *names, *sparks])
        self._cluster = Cluster(directory, self._network, self._journal, state)
        self._spark = SparkCluster(directory / "spark", self._network, self._journal) if query else None
        self._sparks = {} if self._spark is None else self._spark.nodes
        self.clients = {name: self._client(name) for name in names}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.clients.values(), *self._sparks.values()):
            node.kill()
        self._cluster.stop()

    # -- clients ------------------------------------------------------------------------------------------------

    def _client(self, name: str) -> Node:
        log = self._directory / "clients" / f"{name}.log"
        return Node(name, self._network, self._journal, log, lambda number: self._command(name, number))

    def _command(self, name: str, number: int) -> list[str]:
        """The command of a client's n-th start."""
        controllers = self._cluster.controller_options(CLIENT)
        servers = self._cluster.kafka(CLIENT) | controllers
        writes = {"transaction.timeout.ms": "10000", "compression.type": "lz4"}
        role, _, place = name.rpartition("-")
        arguments = [str(self.history), f"{name}.{number}"]
        match role:
            case "writer":
                topic = SOURCE if int(place) <= _WRITERS else UNSAFE
                arguments += [topic, str(_KEYS), str(self._at_once), json.dumps(servers | writes)]
            case "copier":
                topics, group = (
                    ([SOURCE, COPIED], _GROUP) if int(place) <= _COPIERS else ([UNSAFE, SAVED], _UNSAFE_GROUP)
                )
                reads = {
                    "group.id": group,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": "false",
                    "session.timeout.ms": "6000",
                    "heartbeat.interval.ms": "1000",
                }
                copies = servers | writes | {"commit.interval.ms": "0"}
                arguments += [*topics, json.dumps(servers | reads), json.dumps(copies)]
            case "operator":
                brokers = self._cluster.names("broker")
                log_dirs = {
                    one.rpartition("-")[2]: [
                        str(self._cluster.log_dir(one, directory)) for directory in (1, 2)
                    ]
                    for one in brokers
                }
                settings = {"topics": [*self._topics, SAVED], "log_dirs": log_dirs}
                operators = json.dumps(self._cluster.controller_options(OPERATOR))
                arguments += [operators, f"{self._seed}/{number}", json.dumps(settings)]
            case "query":
                options = controllers | {
                    f"kafka.{option}": value for option, value in self._cluster.kafka(CLIENT).items()
                }
                assert self._spark is not None
                checkpoint = self._spark.checkpoints / "checkpoint"
                spark = json.dumps(self._spark.settings(name))
                arguments += [
                    SOURCE,
                    QUERIED,
                    str(checkpoint),
                    json.dumps(options),
                    "2 seconds",
                    spark,
                    self._way.value,
                ]
        return [sys.executable, "-m", f"tests.nemesis.{role}", *arguments]

    # -- the run ------------------------------------------------------------------------------------------------

    def go(self, seconds: float) -> list[str]:
        """Faults for so long, then the verdict: violations."""
        self._cluster.start(bindings([*self._topics, UNSAFE, SAVED], [_GROUP, _UNSAFE_GROUP]))
        self._create_topics()
        with ExitStack() as stack:
            supervisor = Supervisor({**self._cluster.nodes, **self._sparks, **self.clients})
            stack.callback(supervisor.close)
            workers = {name: node for name, node in self._sparks.items() if name in WORKERS}
            watch = Watch(self._cluster, self.clients, workers, self._journal)
            stack.callback(watch.close)
            for node in (*self._sparks.values(), *self.clients.values()):
                node.start()
            self._await_first_records()
            self._disturb(watch, seconds)
            left = self._settle()
        events = self.events()
        events = sorted([*events, *self._expulsions(events[-1])], key=lambda event: float(event["at"]))
        return [*left, *judge.check_history(events)]

    def _expulsions(self, last: Event) -> list[Event]:
        """What the brokers' logs say, on the clock of the history."""
        ahead = last["time"] - last["at"]
        times = self._cluster.expulsions(_GROUP)
        return [{"at": one - ahead, "time": one, "process": "run", "action": "expelled"} for one in times]

    def events(self) -> list[Event]:
        """The history so far."""
        with self.history.open() as file:
            return parse(file)

    def _create_topics(self) -> None:
        with self._cluster.controller(retry_for=60.0) as client:
            for topic in (*self._topics, SAVED, CHURN):
                request = schemas.CreateTopicRequest(topic=topic, partitions=2, replication_factor=3)
                assert client.create_topic(request).error == "NONE", topic
            configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
            request = schemas.CreateTopicRequest(
                topic=UNSAFE, partitions=2, replication_factor=2, configs=configs
            )
            assert client.create_topic(request).error == "NONE", UNSAFE
            for one in client.brokers().brokers:
                client.set_guard_rails(one.id, schemas.GuardRailsRequest(max_partitions=_LIMIT))

    def _await_first_records(self) -> None:
        """Of the group alone: Spark may take minutes to start on a busy machine."""
        reader = TopicReader(self._cluster.kafka(), COPIED)
        try:
            logs = [node.tail(800) for node in self.clients.values()]
            assert reader.read(1, _FIRST), f"nothing is copied to {COPIED}: {logs}"
        finally:
            reader.close()

    def _disturb(self, watch: Watch, seconds: float) -> None:
        hosts = Hosts(
            self._cluster.names("broker"),
            self._cluster.names("zookeeper"),
            self._cluster.names("controller"),
            self._cluster.names("kraft"),
            tuple(self.clients),
            drivers=tuple(self._of("query")),
            masters=(MASTER,) if self._sparks else (),
            workers=WORKERS if self._sparks else (),
        )
        quietly = {True: watch.quiet.set, False: watch.quiet.clear}
        nemesis = Nemesis(
            self._cluster,
            {**self.clients, **self._sparks},
            self._network,
            self._journal,
            {} if self._spark is None else dict.fromkeys(self._of("query"), self._spark.checkpoints),
            lambda quiet: quietly[quiet](),
        )
        chosen = {"way": self._way.value, "secure": self._cluster.state.secure}
        self._journal.note("begin", seed=self._seed, seconds=seconds, **chosen)
        nemesis.run(rounds(self._seed, hosts), time.monotonic() + seconds)
        self._journal.note("end")

    # -- the end ------------------------------------------------------------------------------------------------

    def _settle(self) -> list[str]:
        """Let all come to its end, and read it."""
        deadline = time.monotonic() + SETTLING
        for node in (*self._cluster.nodes.values(), *self._sparks.values()):
            node.start()
        for name in self._of("operator"):
            self.clients[name].stop()
        # Writers end when all is acknowledged, and that takes brokers that are still starting on a busy machine.
        is_whole = self._cluster.await_in_sync(SETTLING / 3)
        for name in self._of("writer"):
            self.clients[name].stop()
        with self._cluster.controller(retry_for=30.0) as client:
            if not is_whole and not self._cluster.is_led(CHURN):
                # Of one replica, whose log directory failed before its broker was killed: Kafka 4.3 may elect it no more, and
                # then neither ends nor cancels its reassignment.
                self._journal.note("delete", topic=CHURN, result=client.delete_topic(CHURN).error)
            self._await(deadline, "changes of partition counts end", lambda: self._changing(client))
            self._await(deadline, "reassignments end", lambda: self._moving(client))
            self._await(deadline, "open transactions end", lambda: self._open(client))
            found = self._judge_logs(client, deadline)
        self._note_throttles()
        return found

    def _judge_logs(self, client: ControllerClient, deadline: float) -> list[str]:
        """Read all topics, once the copies are complete."""
        with ExitStack() as stack:

            def reader(topic: str) -> TopicReader:
                # A broker that has just come back may not have heard of all partitions.
                count = layout_history(client.layout(topic)).partition_count
                made = TopicReader(self._cluster.kafka(), topic, count)
                stack.callback(made.close)
                return made

            source, unsafe, saved = reader(SOURCE), reader(UNSAFE), reader(SAVED)
            copies = {topic: reader(topic) for topic in self._topics if topic != SOURCE}
            for one in (source, unsafe):
                assert one.read(0, SETTLING), f"{one.topic} cannot be read to its end"
            left = unsafe.in_order(client)
            self._await(deadline, f"{SAVED} has all that is left", lambda: _unsaved(client, left, saved))
            for name, copy in copies.items():
                if not copy.read(len(source), max(_READING, deadline - time.monotonic())):
                    self._overdue(f"{name} has all records", f"{len(copy)} of {len(source)}")
            for name in self._of("copier", "query"):
                self.clients[name].stop()
            for copy in (*copies.values(), saved):
                copy.read(0, 30.0)
            written, events = source.in_order(client), self.events()
            found = judge.check_log(written, _of_topic(events, SOURCE))
            for name, copy in copies.items():
                found += judge.check_copy(name, written, copy.in_order(client))
            found += judge.check_losses(left, saved.in_order(client), _of_topic(events, UNSAFE))
            counts = {one.topic: len(one) for one in (*copies.values(), unsafe, saved)}
            self._journal.note("read", records=len(source), **counts)
            self._journal.note("judged", violations=found)
            return found

    def _note_throttles(self) -> None:
        """Note those that are left. A controller takes them back a moment after a reassignment ends; brokers hear of it later."""
        left = [("brokers", "throttles", "nothing is known")]

        def are_gone() -> bool:
            left[:] = throttles(self._cluster, [*self._topics, SAVED])
            return not left

        await_quietly(are_gone, _THROTTLES)
        for resource, name, value in left:
            self._journal.note("throttle left", resource=resource, name=name, value=value)

    def _of(self, *roles: str) -> list[str]:
        return [name for name in self.clients if name.rpartition("-")[0] in roles]

    def _await(self, deadline: float, what: str, left: Callable[[], str]) -> None:
        """Wait until nothing is left; else that is a violation."""
        last = ""

        def done() -> bool:
            nonlocal last
            last = "nothing is known"
            last = left()
            return not last

        if not await_quietly(done, max(10.0, deadline - time.monotonic())):
            self._overdue(what, last)

    def _overdue(self, what: str, state: str) -> None:
        self._journal.note("overdue", what=what, seconds=SETTLING, state=state)

    def _open(self, client: ControllerClient) -> str:
        admin = self._cluster.admin()
        open_ones = {topic: open_transactions(admin, topic) for topic in (SOURCE, UNSAFE)}
        left = {topic: of_topic for topic, of_topic in open_ones.items() if of_topic}
        if UNSAFE in left:
            self._abort_hanging(client)
        return (
            f"{left}, {self._cluster.dropped_markers()} ends of transactions dropped by Kafka" if left else ""
        )

    def _abort_hanging(self, client: ControllerClient) -> None:
        """What the doctor tells an operator to do: an unclean election has lost the end of a transaction, too."""
        for one in client.hanging_transactions(UNSAFE).transactions:
            place = ("--topic", UNSAFE, "--partition", str(one.partition))
            done = kafka_tool(
                *("kafka-transactions", "--bootstrap-server", self._cluster.bootstrap_servers),
                *("abort", *place, "--start-offset", str(one.start_offset)),
                command_config=self._cluster.command_config,
            )
            self._journal.note(
                "abort", partition=one.partition, offset=one.start_offset, code=done.returncode
            )

    def _changing(self, client: ControllerClient) -> str:
        changes = [client.change(one.topic).change for one in client.topics().topics]
        return ", ".join(repr(one) for one in changes if one is not None)

    def _moving(self, client: ControllerClient) -> str:
        listed = client.reassignments()
        left = [repr(one) for one in listed.requests if not one.complete]
        return ", ".join([*left, *map(repr, listed.ongoing)])


def _of_topic(events: list[Event], topic: str) -> list[Event]:
    """Without what writers of other topics noted."""
    return [one for one in events if one["action"] != "acknowledged" or one["topic"] == topic]


def _unsaved(client: ControllerClient, left: judge.Records, saved: TopicReader) -> str:
    saved.read(0, 10.0)
    return ", ".join(judge.not_copied(left, saved.in_order(client)))


def main(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long faults go on.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Of what is done; random if left out.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Records per second that the writers aim at.")] = 240,
    query: Annotated[bool, typer.Option(help="Whether a Spark query copies the topic, too.")] = True,
    way: Annotated[Way | None, typer.Option(help="How that writes; by the seed if left out.")] = None,
    secure: Annotated[bool | None, typer.Option(help="TLS and logins; by the seed if left out.")] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Where all is kept: history.jsonl, logs, data.")
    ] = None,
) -> None:
    """Ends with 1 if there is a violation, with 2 where the machine lacks what is needed."""
    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    chosen = Path(tempfile.mkdtemp(prefix="nemesis-")) if directory is None else directory.resolve()
    if os.environ.get(INSIDE) is None:
        reason = why_not()
        if reason is not None:
            typer.echo(f"error: network namespaces and TUN devices are needed: {reason}", err=True)
            raise typer.Exit(2)
        arguments = ["--minutes", str(minutes), "--seed", str(seed), "--rate", str(rate)]
        arguments += ["--directory", str(chosen), *([] if way is None else ["--way", way.value])]
        arguments += [] if secure is None else ["--secure" if secure else "--no-secure"]
        raise typer.Exit(
            enter_namespaces(["tests.nemesis.run", *arguments, "--query" if query else "--no-query"])
        )
    chosen.mkdir(parents=True, exist_ok=True)
    if any(chosen.iterdir()):
        typer.echo(
            f"error: --directory {chosen}: another run's servers have left their data; name an empty one",
            err=True,
        )
        raise typer.Exit(2)
    typer.echo(f"seed {seed}, {chosen}/history.jsonl")
    with Run(chosen, seed, query, rate, way, secure) as run:
        violations = run.go(60 * minutes)
        typer.echo(summary(run.events(), violations))
    if violations:
        raise typer.Exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        typer.run(main)
