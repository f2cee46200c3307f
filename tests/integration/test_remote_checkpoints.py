"""Checkpoints in HDFS and in an object store go over to another source where they are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.hadoop_servers import BUCKET, hdfs, s3
from tests.integration.peer_driver import peer_driver
from tests.integration.test_migration import KEYS, adopt, at, checkpoint, produce_plainly
from tests.servers import create_topic
from tests.streams import options

TIMEOUT = 300


@dataclass(frozen=True)
class Store:
    """Where checkpoints are: the URI of a directory, and the Spark conf with which it is reached."""

    uri: str
    conf: Mapping[str, str]


@pytest.fixture(scope="module", params=["hdfs", "s3"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "hdfs":
        with hdfs(directory) as uri:
            yield Store(f"{uri}/some/where", {})
    else:
        with s3(directory) as conf:
            yield Store(f"s3a://{BUCKET}/some/where", conf)


def migrate(
    cluster: LocalCluster, old: str | Path, new: str | Path, *more: str, conf: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, output and last line of standard error of the command."""
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "migrate-checkpoint", "--yes", *more]
    command += ["--from", str(old), "--to", str(new)]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--controller", cluster.controller_url]
    command += [f"--conf={name}={value}" for name, value in (conf or {}).items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]


# S3Proxy shows no directory that is empty, at which Spark's own query ends before anything is migrated.
@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("store", ["hdfs"], indirect=True)
def test_a_query_with_state_goes_over_in_its_store(
    cluster: LocalCluster, topic_name: str, tmp_path: Path, store: Store
) -> None:
    """Spark has written the old checkpoint there, and reads the new one."""
    create_topic(cluster.bootstrap_servers, topic_name, 2)
    plain = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic_name,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    old, new = f"{store.uri}/{topic_name}/old", f"{store.uri}/{topic_name}/new"
    with peer_driver(tmp_path, store.conf) as driver:
        produce_plainly(cluster, topic_name, 0, 40)
        driver.run("kafka", plain, old, counts=True)
        adopt(cluster, topic_name)
        code, output, said = migrate(cluster, old, new, "--dry-run", conf=store.conf)
        assert (code, f"checkpoint {old}\nbatch 0, committed, with keyed state\n" in output) == (0, True), (
            said
        )
        code, output, said = migrate(cluster, old, new, conf=store.conf)
        assert (code, f"wrote {new}\n" in output) == (0, True), said
        produce_plainly(cluster, topic_name, 40, 5)
        found = driver.run("ordered-kafka", plain | options(cluster), new, counts=True)
    assert found["counts"] == {f"k{key}": 45 for key in range(KEYS)}


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_checkpoints_come_from_this_machine_and_return(
    cluster: LocalCluster, topic_name: str, tmp_path: Path, store: Store
) -> None:
    create_topic(cluster.bootstrap_servers, topic_name, 2)
    adopt(cluster, topic_name)
    old = checkpoint(tmp_path / "old", at(topic_name, 0, 0))
    there = f"{store.uri}/{topic_name}"
    assert migrate(cluster, old, there, conf=store.conf)[0] == 0
    code, output, said = migrate(cluster, old, there, conf=store.conf)
    assert (code, "nothing to do" in output) == (0, True), said
    assert migrate(cluster, there, tmp_path / "back", conf=store.conf)[0] == 0
    for path in ("metadata", "offsets/6", "offsets/7", "commits/7"):
        kept, returned = ((tmp_path / name / path).read_text() for name in ("old", "back"))
        assert returned.split("\n")[:2] == kept.split("\n")[:2]
    assert json.loads((tmp_path / "back" / "offsets" / "7").read_text().split("\n")[2]) == {
        topic_name: {"0": 0, "1": 0}
    }
    code, _, said = migrate(cluster, f"{there}/nothing", tmp_path / "none", conf=store.conf)
    assert (code, "it is no checkpoint of a streaming query" in said) == (2, True), said
    code, _, said = migrate(cluster, there, f"{there}/in", conf=store.conf)
    assert (code, "it must be neither --from nor a part of it" in said) == (2, True), said


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_what_is_missing_is_named(cluster: LocalCluster, tmp_path: Path, topic_name: str) -> None:
    """Before anything is asked of brokers; the connector's package, and the right to read."""
    code, _, said = migrate(cluster, "s3a://bucket/old", tmp_path / "new")
    assert code == 2
    assert said.startswith("error: --from has the value 's3a://bucket/old': Spark does not reach it: ")
    assert "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:" in said
    (tmp_path / "s3").mkdir()
    with s3(tmp_path / "s3") as conf:
        wrong = {**conf, "spark.hadoop.fs.s3a.secret.key": "another"}
        code, _, said = migrate(cluster, f"s3a://{BUCKET}/old", tmp_path / "new", conf=wrong)
        assert code == 2
        assert said.startswith(f"error: --from has the value 's3a://{BUCKET}/old': it cannot be read: ")
        assert "403" in said
        old = checkpoint(tmp_path / "old", at(topic_name, 0))
        code, _, said = migrate(cluster, old, f"s3a://{BUCKET}/new", conf=wrong)
        assert said.startswith(f"error: --to has the value 's3a://{BUCKET}/new': it cannot be read: ")
