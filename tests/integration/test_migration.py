"""Queries of Spark's own ``kafka`` format go on with ``ordered-kafka``, and back: nothing lost, nothing twice, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.schemas import AdoptTopicRequest, AlterTopicRequest, DeleteTopicsRequest
from spark_ordered_kafka.local import LocalCluster
from tests.integration.peer_driver import peer_driver
from tests.queries import Query, await_stable, everything, verdict
from tests.servers import TIMEOUT, create_topic, unique_name
from tests.streams import NumberedWriter, change, create, options, written_through

KEYS = 20


def migrate(
    cluster: LocalCluster, old: Path | str, new: Path | str, *more: str, answer: str | None = None
) -> tuple[int, str]:
    """Exit code and output of the command."""
    command = ["migrate-checkpoint", "--from", str(old), "--to", str(new)]
    servers = ["--bootstrap-server", cluster.bootstrap_servers, "--controller", cluster.controller_url]
    result = CliRunner().invoke(app, [*command, *servers, *more], input=answer)
    return result.exit_code, result.output


def migrated(cluster: LocalCluster, old: Path | str, new: Path | str, *more: str) -> str:
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


def checkpoint(directory: Path, *offsets: str, batch: int = 7, committed: bool = True) -> Path:
    """A checkpoint whose last batch ends at these offsets, a line per source, as Spark writes it."""
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": unique_name("query")}))
    head = ("v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}))
    for number in (batch - 1, batch):
        (directory / "offsets" / str(number)).write_text("\n".join((*head, *offsets)))
        if committed or number < batch:
            (directory / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


def at(topic: str, *positions: int) -> str:
    return json.dumps({topic: {str(p): at for p, at in enumerate(positions)}})


def last_offset(directory: Path, source: int = 0, batch: int = 7) -> str:
    return (directory / "offsets" / str(batch)).read_text().split("\n")[2 + source]


def test_reading_goes_on_at_the_offsets_through_a_split(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    """There and back without Spark: the source's own reader goes on at what the command has written."""
    create_topic(cluster.bootstrap_servers, topic_name, 2)
    produce_plainly(cluster, topic_name, 0, 5)
    adopt(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as first:
        read = first.all_rows()
    old = checkpoint(tmp_path / "old", at(topic_name, *first.positions(topic_name)))
    new = tmp_path / "new"

    code, output = migrate(cluster, old, new, "--dry-run")
    assert (code, "batch 7, committed\n" in output, new.exists()) == (0, True, False)
    code, output = migrate(cluster, old, new, answer="n\n")
    assert (code, "The query must be stopped." in output, new.exists()) == (1, True, False)
    output = migrated(cluster, old, new)
    assert 'next: start the query with format("ordered-kafka"), controller.url' in output
    assert (
        max(len(line) for line in output.splitlines() if str(tmp_path) not in line and "  " not in line) <= 80
    )
    assert "nothing to do" in migrated(cluster, old, new)

    writer = NumberedWriter(cluster, topic_name, keys=KEYS, first=5)
    writer.write()
    change(cluster, topic_name, 5)
    writer.write()
    await_stable(cluster, topic_name)
    message = refused(cluster, new, tmp_path / "back")
    assert f"{topic_name}-0 is at offset" in message
    assert "run the ordered query with the trigger availableNow" in message
    forced = migrated(cluster, new, tmp_path / "forced", "--force")
    assert "order: from here on every key is read in the order of writing, but for these:" in forced
    with Query(everything(cluster, topic_name), last_offset(new)) as ordered:
        read += ordered.all_rows()
    assert verdict(read, KEYS * 5 + writer.written).violations == 0

    back = checkpoint(tmp_path / "drained", ordered.checkpoint)
    output = migrated(cluster, back.as_uri(), (tmp_path / "back").as_uri())
    assert "kafka.isolation.level=read_committed" in output
    assert json.loads(last_offset(tmp_path / "back")) == {
        topic_name: {str(p): offset for p, offset in enumerate(ordered.positions(topic_name))}
    }


def test_everything_that_is_in_the_way_is_said_at_once(cluster: LocalCluster, tmp_path: Path) -> None:
    unordered, unmanaged, missing, short = (unique_name(name) for name in ("a", "b", "c", "d"))
    create(cluster, unordered, 1)
    create(cluster, short, 1)
    with ControllerClient(cluster.controller_url) as client:
        client.alter_topic(unordered, AlterTopicRequest(ordered_delivery=False), wait=TIMEOUT)
    create_topic(cluster.bootstrap_servers, unmanaged)
    offsets = {topic: {"0": 0} for topic in (unordered, unmanaged, missing)} | {short: {"0": 5, "3": 1}}
    message = refused(cluster, checkpoint(tmp_path / "old", json.dumps(offsets)), tmp_path / "new")
    for said in (
        f"ordered-kafka topics alter --topic {unordered} --ordered-delivery",
        f"topic '{unmanaged}' is not under management: adopt it (ordered-kafka topics adopt)",
        f"topic '{missing}' does not exist",
        f"no layout has {short}-3 yet",
        f"{short}-0 is at offset 5, and committed records end at 0",
    ):
        assert said in message, message
    uncommitted = checkpoint(tmp_path / "uncommitted", at(short, 0), committed=False)
    assert "batch 7 is planned and not committed" in refused(cluster, uncommitted, tmp_path / "new")
    with ControllerClient(cluster.controller_url) as client:
        gone = checkpoint(tmp_path / "gone", json.dumps(ours(short, "AAAAAAAAAAAAAAAAAAAAAA", 0)))
        assert "it was created again" in refused(cluster, gone, tmp_path / "new")
        client.delete_topics(DeleteTopicsRequest(topics=[unordered, short]))


def ours(topic: str, topic_id: str, *positions: int) -> dict[str, Any]:
    told = {"topic_id": topic_id, "layout_epoch": 0, "positions": list(positions), "leader_epochs": []}
    return {"version": 1, "topics": {topic: told}}


def test_what_has_no_order_is_said(cluster: LocalCluster, topic_name: str, tmp_path: Path) -> None:
    """Positions that no gate would have allowed, records written without order, and records in other places."""
    writer = written_through(cluster, topic_name, 1, 2, keys=KEYS)
    await_stable(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as query:
        everything_read = query.all_rows()
    earlier = [row for row in everything_read if row["partition"] == 1 or row["offset"] < 3]
    _, second = query.positions(topic_name)
    old = checkpoint(tmp_path / "ahead", at(topic_name, 3, second))
    output = migrated(cluster, old, tmp_path / "new")
    assert f"{topic_name}-0: offsets 3 to 100 come after later records of the same keys" in output
    assert f"the old query has read from {topic_name}-1 already" in output
    # The reader does what it says: it reads the rest, and once.
    with Query(everything(cluster, topic_name), last_offset(tmp_path / "new")) as ordered:
        rows = ordered.all_rows()
    assert {row["partition"] for row in rows} == {0}
    assert verdict([*earlier, *rows], writer.written).lost == 0

    foreign = create_topic(cluster.bootstrap_servers, unique_name("elsewhere"), 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(40):
        producer.produce(foreign, key=f"k{number % KEYS}", value=b"v", partition=number % 2)
    assert producer.flush(TIMEOUT) == 0
    adopt(cluster, foreign, force=True)
    output = migrated(cluster, checkpoint(tmp_path / "strange", at(foreign, 0, 0)), tmp_path / "stranger")
    assert "of 40 sampled records with a key," in output
    assert f"{foreign}-1: records up to offset" in output


def test_a_source_among_others_is_changed_alone(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 2)
    rates, other = '{"logOffset":3}', at("unmanaged-topic-that-is-not-touched", 4)
    old = checkpoint(tmp_path / "old", rates, at(topic_name, 0, 0), other)
    for index in (0, 1, 2):
        (old / "sources" / str(index)).mkdir(parents=True)
        (old / "sources" / str(index) / "0").write_text("kept")
    new = tmp_path / "new"
    migrated(cluster, old, new, "--source", "1")
    assert (last_offset(new, 0), last_offset(new, 2)) == (rates, other)
    assert json.loads(last_offset(new, 1))["topics"].keys() == {topic_name}
    assert sorted(path.name for path in (new / "sources").iterdir()) == ["0", "2"]
    for source, said in (("0", "neither of the format"), ("3", "the query has the sources 0 to 2")):
        assert said in refused(cluster, old, tmp_path / "none", "--source", source)


def test_wrong_options_are_named(cluster: LocalCluster, topic_name: str, tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", at(topic_name, 0))
    new = tmp_path / "new"
    for more, said in (
        (["--option", "kafka.max.block.ms"], "NAME=VALUE is needed"),
        (["--option", "kafka.max.block.ms=1"], "kafka.max.block.ms"),
        (["--option", "nonsense=1"], "nonsense"),
    ):
        assert said in refused(cluster, old, new, *more)
    for directory, said in (
        (old, "it must be neither --from nor a part of it"),
        (old / "deeper", "it must be neither --from nor a part of it"),
        (tmp_path, "it must be neither --from nor a part of it, nor have it as a part"),
    ):
        code, output = migrate(cluster, old, directory)
        assert (code, said in output) == (2, True), output
    (tmp_path / "full" / "x").mkdir(parents=True)
    code, output = migrate(cluster, old, tmp_path / "full")
    assert (code, "it is not empty: an absent or empty directory is needed" in output) == (2, True)
