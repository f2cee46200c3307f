"""What Kafka's own tool prints of log directories, beside what ours prints."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.local import LocalCluster
from tests.integration.log_dirs.moving import Cli
from tests.servers import TIMEOUT


def kafkas_own(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    servers = cluster.bootstrap_servers
    return kafka_tool("kafka-log-dirs", "--bootstrap-server", servers, "--describe", *arguments)


def parsed(out: str) -> tuple[str, str, list[int], Any]:
    """What Kafka's tool prints: two lines of words, the second with ids of brokers, and JSON."""
    querying, received, document = out.splitlines()
    words, _, ids = received.rpartition(" ")
    return querying, words, list(map(int, ids.split(","))), json.loads(document)


def in_order(out: str) -> tuple[str, str, list[int], Any]:
    """The same with all lists sorted that Kafka's tool has in the order of Java's hash maps."""
    querying, words, ids, found = parsed(out)
    for broker in found["brokers"]:
        for one in broker["logDirs"]:
            one["partitions"].sort(key=partition_number)
        broker["logDirs"].sort(key=lambda one: one["logDir"])
    found["brokers"].sort(key=lambda broker: broker["broker"])
    return querying, words, sorted(ids), found


def partition_number(row: dict[str, Any]) -> tuple[str, int]:
    topic, _, partition = row["partition"].rpartition("-")
    return topic, int(partition)


def same_as_kafkas_own(cluster: LocalCluster, cli: Cli, *arguments: str) -> str:
    """What ours prints; logs that grow meanwhile are looked at again."""
    deadline = time.monotonic() + 6 * TIMEOUT
    command = ("log-dirs", "describe", "--output", "kafka", *arguments)
    while True:
        before, theirs, after = cli(*command), kafkas_own(cluster, *arguments), cli(*command)
        if before == after:
            code, out, _ = before
            assert (theirs.returncode, in_order(theirs.stdout)) == (code, parsed(out))
            return out
        assert time.monotonic() < deadline, "the logs do not come to rest"
