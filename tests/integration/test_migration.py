"""Queries of Spark's own ``kafka`` format go on with ``ordered-kafka``, and back: nothing lost, nothing twice, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.schemas import AdoptTopicRequest
from spark_ordered_kafka.local import LocalCluster
from tests.integration.peer_driver import peer_driver
from tests.queries import await_stable
from tests.servers import TIMEOUT, create_topic
from tests.streams import NumberedWriter, change, options

KEYS = 20


def migrate(
    cluster: LocalCluster, old: Path, new: Path, *more: str, answer: str | None = None
) -> tuple[int, str]:
    """Exit code and output of the command."""
    command = ["migrate-checkpoint", "--from", str(old), "--to", str(new)]
    servers = ["--bootstrap-server", cluster.bootstrap_servers, "--controller", cluster.controller_url]
    result = CliRunner().invoke(app, [*command, *servers, *more], input=answer)
    return result.exit_code, result.output


def migrated(cluster: LocalCluster, old: Path, new: Path, *more: str) -> str:
    code, output = migrate(cluster, old, new, "--yes", *more)
    assert code == 0, output
    return output


def refused(cluster: LocalCluster, old: Path, new: Path, *more: str) -> str:
    """The message of an error, after which there is no new checkpoint."""
    code, output = migrate(cluster, old, new, "--yes", *more)
    assert code in (1, 2), output
    assert not new.exists()
    return output


def produce_plainly(cluster: LocalCluster, topic: str, first: int, count: int) -> None:
    """Numbered records by a producer that knows nothing of layouts."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
    for number in range(first, first + count):
        for key in range(KEYS):
            producer.produce(topic, key=f"k{key}", value=f"k{key}:{number}")
    assert producer.flush(TIMEOUT) == 0


def adopt(cluster: LocalCluster, topic: str, **fields: Any) -> None:
    with ControllerClient(cluster.controller_url) as client:
        client.adopt_topic(topic, AdoptTopicRequest(hash="murmur2", **fields))


@pytest.mark.long
def test_a_query_goes_over_to_ordered_reading_and_back(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    """Through a split and a shrink; a query without state, and one that counts by key."""
    create_topic(cluster.bootstrap_servers, topic_name, 2)
    delivered: dict[str, list[Any]] = {"keys": [], "numbers": []}
    counts: dict[str, int] = {}
    plain = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic_name,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    sources = {"kafka": plain, "ordered-kafka": plain | options(cluster)}
    kinds = (("rows", False), ("counts", True))

    with peer_driver(tmp_path) as driver:

        def read(form: str, stage: int) -> None:
            for name, counting in kinds:
                found = driver.run(form, sources[form], tmp_path / f"{name}-{stage}", counts=counting)
                counts.update(found.pop("counts", {}))
                for column, values in found.items():
                    delivered[column] += values

        produce_plainly(cluster, topic_name, 0, 40)
        read("kafka", 1)
        produce_plainly(cluster, topic_name, 40, 10)
        read("kafka", 1)
        produce_plainly(cluster, topic_name, 50, 10)
        for name, _ in kinds:
            message = refused(cluster, tmp_path / f"{name}-1", tmp_path / f"{name}-2")
            assert "is not under management: adopt it (ordered-kafka topics adopt)" in message
        adopt(cluster, topic_name)
        for name, _ in kinds:
            output = migrated(cluster, tmp_path / f"{name}-1", tmp_path / f"{name}-2")
            assert "source 0 of 1 becomes ordered-kafka" in output
            assert "order: from here on every key is read in the order of writing\n" in output
        assert "batch 1, committed, with keyed state" in output

        writer = NumberedWriter(cluster, topic_name, keys=KEYS, first=60)
        writer.write(2)
        change(cluster, topic_name, 5)
        writer.write(2)
        read("ordered-kafka", 2)
        writer.write()
        change(cluster, topic_name, 3)
        writer.write(2)
        await_stable(cluster, topic_name)
        for name, _ in kinds:
            message = refused(cluster, tmp_path / f"{name}-2", tmp_path / f"{name}-3")
            assert "run the ordered query with the trigger availableNow until it ends" in message
        read("ordered-kafka", 2)
        writer.write()
        await_stable(cluster, topic_name)
        for name, _ in kinds:
            output = migrated(cluster, tmp_path / f"{name}-2", tmp_path / f"{name}-3")
            assert "source 0 of 1 becomes kafka" in output
        read("kafka", 3)
        writer.write()
        await_stable(cluster, topic_name)
        read("kafka", 3)

    per_key = 60 + writer.written // KEYS
    report = check(np.array(delivered["keys"]), np.array(delivered["numbers"]), KEYS * per_key)
    assert report.violations == 0, report
    assert counts == {f"k{key}": per_key for key in range(KEYS)}
