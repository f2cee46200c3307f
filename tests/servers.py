"""Help for tests that run against real servers."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.codes import Kind, kind_of
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local.java import SMALL_JVM

TIMEOUT = 30.0
"""Seconds after which a request to a server that a test made counts as failed."""

COORDINATOR_BEGINS = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""What a group's coordinator answers while it takes the group over."""


def unique_name(prefix: str) -> str:
    """A name no other test uses: tests share the servers."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def create_topic(
    bootstrap_servers: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Create a topic that no controller manages, wait until all its partitions have leaders, return its name."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 4})
    new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}))
    admin.create_topics([new], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    # Kafka answers when its KRaft controller has made it: brokers hear of it later.
    await_partitions(admin, topic, partitions)
    return topic


def await_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until a broker shows so many partitions, all with leaders: it learns of them a moment after they were made."""

    def is_known() -> bool:
        found = admin.list_topics(topic, TIMEOUT).topics[topic].partitions.values()
        return len(found) == partitions and all(one.leader >= 0 for one in found)

    await_true(is_known, f"the {partitions} partitions of {topic} are known")


def processes_of(directory: Path) -> list[psutil.Process]:
    """Processes whose command line or environment names the directory, found without the code under test."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = [*(process.info["cmdline"] or []), *(process.info["environ"] or {}).values()]
        if process.pid != os.getpid() and any(str(directory) in word for word in words):
            found.append(process)
    return found


def start_spark(directory: Path, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark session with two local cores that runs its Python workers with this Python and writes to ``directory``.

    ``settings``: more of Spark's configuration, or other values of it.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", " ".join(SMALL_JVM))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        # A crash of a Python worker then shows where it was.
        .config("spark.python.worker.faulthandler.enabled", "true")
        .config("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config(map={} if settings is None else dict(settings))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(_spark_home(directory)))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def _spark_home(directory: Path) -> Path:
    """PySpark's own Spark without its archive of PySpark, which every new Python process of Spark's would compile anew."""
    home = directory / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars"):
        link = home / part
        if not link.is_symlink():
            link.symlink_to(Path(pyspark.__file__).parent / part)
    return home


def alter_configs(
    admin: AdminClient, kind: ResourceType, name: str, values: Mapping[str, str | None]
) -> None:
    """Set configurations; None: delete."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)


def hosted_replicas(admin: KafkaAdmin) -> dict[int, int]:
    """Replicas of all topics, internal ones and those being added included, by broker.

    Live brokers without any have 0; brokers that are down are there if they have some.
    """
    hosted = Counter(
        replica
        for topic in admin.describe_topics().values()
        for partition in topic.partitions
        for replica in partition.replicas
    )
    return dict.fromkeys((broker.id for broker in admin.brokers()), 0) | hosted


def commit_offsets(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit offsets of the consumer's group; a coordinator that has just begun loads the group's first, once it knows that
    it is the coordinator."""

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_BEGINS:
                raise
            return False
        return True

    await_true(is_committed, "offsets committed")


def await_true(condition: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> None:
    """Wait until ``condition`` holds; fails after ``timeout`` seconds, saying ``what`` was waited for."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.02)


def transaction_states(fencer: Fencer, prefix: str, deadline: float) -> dict[str, str]:
    """Transactional id -> state of its transaction, of all ids that begin with ``prefix``."""
    return {name: writer.state for name, writer in fencer.list_writers(prefix, deadline).items()}


def unstable(admin: AdminClient, topic: str) -> dict[int, tuple[int, int]]:
    """Last stable offset and end of each partition of a topic that has something undecided before its end.

    Partitions without a leader are left out. One whose leader has just changed counts as undecided.
    """
    found = admin.list_topics(topic, TIMEOUT).topics[topic].partitions
    places = [TopicPartition(topic, p) for p, metadata in found.items() if metadata.leader >= 0]
    if not places:
        return {}

    def ends(level: IsolationLevel) -> dict[int, int]:
        asked = dict.fromkeys(places, OffsetSpec.latest())
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT)
        return {place.partition: future.result(TIMEOUT).offset for place, future in answers.items()}

    try:
        stable, all_ends = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
    except KafkaException as error:
        # librdkafka calls only errors of transactions retriable.
        if kind_of(error.args[0]) is not Kind.RETRIABLE:
            raise
        return {place.partition: (-1, -1) for place in places}
    return {p: (stable[p], end) for p, end in all_ends.items() if stable[p] != end}


def await_decided(bootstrap_servers: str, topic: str) -> None:
    """Wait until all that ordered writers have committed can be read: Kafka answers a commit before its markers are there.

    Transactions that are open are not waited for.
    """
    if not unstable(AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 4}), topic):
        return
    admin = KafkaAdmin(bootstrap_servers, timeout=TIMEOUT)
    fencer, prefix = Fencer(admin), f"ordered:{topic}:"

    def is_decided() -> bool:
        states = transaction_states(fencer, prefix, time.monotonic() + TIMEOUT).values()
        return not any(state.startswith("Prepare") for state in states)

    try:
        await_true(is_decided, f"the ends of transactions of {topic}")
    finally:
        admin.close()
