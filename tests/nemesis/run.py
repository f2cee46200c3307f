"""``make chaos``: a whole cluster under faults, operators and clients, and what the judge says of it."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS, kafka_jars
from spark_ordered_kafka.local.java import find_java
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.nemesis import judge
from tests.nemesis.clients import COPYING, READING, SAVING, STATIC, Clients, client_names
from tests.nemesis.cluster import Cluster, plan_servers
from tests.nemesis.deliveries import Log, check_delivered, undelivered
from tests.nemesis.journal import Event, Journal, parse
from tests.nemesis.nemesis import Nemesis
from tests.nemesis.network import INSIDE, Network, enter_namespaces, why_not
from tests.nemesis.nodes import Node, Supervisor
from tests.nemesis.operator import CHURN
from tests.nemesis.plan import COPIED, SAVED, SOURCE, UNSAFE, Hosts, rounds
from tests.nemesis.reading import TopicReader, open_transactions
from tests.nemesis.rights import bindings
from tests.nemesis.spark import MASTER, WORKERS, SparkCluster, Way
from tests.nemesis.summary import summary
from tests.nemesis.watch import Watch, await_quietly, throttles

_SECURE, _OLD = 0.4, 0.3
"""Parts of the seeds whose cluster is secured, and whose Kafka is the oldest."""
_LIMIT = 60
"""Of a broker's replicas, until an operator sets another: a short run has limits to be judged by as well."""
SETTLING = 300.0
"""Seconds after the last fault in which every change must end, and every reader reach the end."""
_READING = 60.0
"""Seconds to read what a copy has by then, where the copy before it took all of that time."""
_THROTTLES = 60.0
"""Seconds after the end of all reassignments in which their throttles must be gone."""
_FIRST = 180.0
"""Seconds for the first records to be copied, before the first fault."""


class Setup(NamedTuple):
    """Of a run. ``rate``: records per second that writers aim at. ``query``: whether a Spark query copies the topic, too."""

    seed: int
    query: bool
    rate: int
    way: Way
    secure: bool
    kafka: str


class Run:
    """One run, from the start of its servers to the verdict."""

    def __init__(self, directory: Path, setup: Setup) -> None:
        self.history = directory / "history.jsonl"
        self._setup = setup
        self._journal = Journal(self.history, "run")
        query, state = setup.query, plan_servers(setup.kafka, secure=setup.secure)
        names = client_names(query=query)
        sparks = (MASTER, *WORKERS) if query else ()
        self._network = Network("watch", [*(server.name for server in state.servers), *names, *sparks])
        self._cluster = Cluster(directory, self._network, self._journal, state)
        self._spark = SparkCluster(directory / "spark", self._network, self._journal) if query else None
        self._sparks = {} if self._spark is None else self._spark.nodes
        clients = Clients(self.history, self._cluster, self._spark, setup.seed, setup.rate, setup.way)
        self._topics = clients.topics
        self.clients = {
            name: Node(
                name,
                self._network,
                self._journal,
                directory / "clients" / f"{name}.log",
                partial(clients.command, name),
            )
            for name in names
        }

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.clients.values(), *self._sparks.values()):
            node.kill()
        self._cluster.stop()

    # -- the run ------------------------------------------------------------------------------------------------

    def go(self, seconds: float) -> list[str]:
        """Faults for so long, then the verdict: violations."""
        self._cluster.start(bindings([*self._topics, UNSAFE, SAVED], [COPYING, SAVING, READING]))
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
        return [*left, *judge.check_history(self._all_events())]

    def _all_events(self) -> list[Event]:
        """The history so far, with what the servers' own logs say, on its clock."""
        events = self.events()
        ahead = events[-1]["time"] - events[-1]["at"]
        said = {
            "expelled": self._cluster.expulsions(COPYING),
            "unclean": self._cluster.unclean_elections(UNSAFE),
        }
        events += [
            {"at": one - ahead, "time": one, "process": "run", "action": action}
            for action, times in said.items()
            for one in times
        ]
        return sorted(events, key=lambda event: float(event["at"]))

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
            STATIC,
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
        chosen = self._setup._asdict() | {"way": self._setup.way.value}
        self._journal.note("begin", seconds=seconds, **chosen)
        nemesis.run(rounds(self._setup.seed, hosts), time.monotonic() + seconds)
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
            self._await(
                deadline, f"{SAVED} has all that is left", lambda: _unsaved(client, left.records, saved)
            )
            for name, copy in copies.items():
                if not copy.read(len(source), max(_READING, deadline - time.monotonic())):
                    self._overdue(f"{name} has all records", f"{len(copy)} of {len(source)}")
            log = source.in_order(client)
            self._await(deadline, "readers were given all records", lambda: self._undelivered(log))
            for name in self._of("copier", "query", "reader"):
                self.clients[name].stop()
            for copy in (*copies.values(), saved):
                copy.read(0, 30.0)
            written, events = log.records, self._all_events()
            found = judge.check_log(written, _of_topic(events, SOURCE))
            for name, copy in copies.items():
                found += judge.check_copy(name, written, copy.in_order(client).records)
            found += judge.check_losses(
                left.records, saved.in_order(client).records, _of_topic(events, UNSAFE)
            )
            found += check_delivered(log, events)
            counts = {one.topic: len(one) for one in (*copies.values(), unsafe, saved)}
            self._journal.note("read", records=len(source), **counts)
            self._journal.note("judged", violations=found)
            return found

    def _undelivered(self, log: Log) -> str:
        count = undelivered(log, self.events())
        return f"{count} of {len(log.offsets)} are missing" if count else ""

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
    return ", ".join(judge.not_copied(left, saved.in_order(client).records))


def _known(kafka: str | None) -> str | None:
    if kafka is not None and kafka not in KAFKA_VERSIONS:
        raise typer.BadParameter(f"{kafka}: give one of {', '.join(KAFKA_VERSIONS)}")
    return kafka


def main(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long faults go on.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Of what is done; random if left out.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Records per second that the writers aim at.")] = 240,
    query: Annotated[bool, typer.Option(help="Whether a Spark query copies the topic, too.")] = True,
    way: Annotated[Way | None, typer.Option(help="How that writes; by the seed if left out.")] = None,
    secure: Annotated[bool | None, typer.Option(help="TLS and logins; by the seed if left out.")] = None,
    kafka: Annotated[
        str | None, typer.Option(callback=_known, help="Its version; by the seed if left out.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Where all is kept: history.jsonl, logs, data.")
    ] = None,
) -> None:
    """Ends with 1 if there is a violation, with 2 where the machine lacks what is needed."""
    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    chosen = Path(tempfile.mkdtemp(prefix="nemesis-")) if directory is None else directory.resolve()
    setup = Setup(
        seed,
        query,
        rate,
        way or random.Random(f"{seed} way").choice(list(Way)),
        random.Random(f"{seed} secure").random() < _SECURE if secure is None else secure,
        kafka or KAFKA_VERSIONS[-1 if random.Random(f"{seed} kafka").random() < _OLD else 0],
    )
    if os.environ.get(INSIDE) is None:
        reason = why_not()
        if reason is not None:
            typer.echo(f"error: network namespaces and TUN devices are needed: {reason}", err=True)
            raise typer.Exit(2)
        # There is no way out of the namespaces.
        kafka_jars(setup.kafka, java=find_java(), progress=typer.echo)
        arguments = ["--minutes", str(minutes), "--seed", str(seed), "--rate", str(rate)]
        arguments += ["--directory", str(chosen), "--way", setup.way.value, "--kafka", setup.kafka]
        arguments += ["--query" if query else "--no-query", "--secure" if setup.secure else "--no-secure"]
        raise typer.Exit(enter_namespaces(["tests.nemesis.run", *arguments]))
    chosen.mkdir(parents=True, exist_ok=True)
    if any(chosen.iterdir()):
        typer.echo(
            f"error: --directory {chosen}: another run's servers have left their data; name an empty one",
            err=True,
        )
        raise typer.Exit(2)
    typer.echo(f"seed {seed}, {chosen}/history.jsonl")
    with Run(chosen, setup) as run:
        violations = run.go(60 * minutes)
        typer.echo(summary(run.events(), violations))
    if violations:
        raise typer.Exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        typer.run(main)
