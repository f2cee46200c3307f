"""Topics with data of real foreign clients come under management, and keep their keys in place through changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import AdoptTopicRequest, PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.controller.state.records import CreationRecord
from spark_ordered_kafka.kafka import sampling
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.updates import updated
from tests.inside import znodes_of
from tests.integration.controllers import InProcess
from tests.integration.foreign_clients import Record, java_gateway, produce, produce_with_java
from tests.servers import TIMEOUT, await_partitions, create_topic, unique_name
from tests.streams import NumberedWriter, misrouted

PARTITIONS = 3


@pytest.fixture(scope="module")
def gateway(kafka_cluster: LocalCluster) -> Iterator[JavaGateway]:
    with java_gateway(kafka_cluster) as running:
        yield running


def records(first: int, count: int, keys: int = 40) -> list[Record]:
    return [(b"key-%d" % (number % keys), b"%d" % number) for number in range(first, first + count)]


def adopt(controller: InProcess, topic: str, hash_name: str = "murmur2", **fields: Any) -> httpx2.Response:
    body = {"hash": hash_name, **fields}
    answer: httpx2.Response = controller.http.post(f"/v1/topics/{topic}/adopt", json=body)
    return answer


def adopted(controller: InProcess, topic: str, hash_name: str = "murmur2", **fields: Any) -> None:
    answer = adopt(controller, topic, hash_name, **fields)
    assert answer.status_code == 200, answer.text


def refused(controller: InProcess, topic: str, hash_name: str, **fields: Any) -> str:
    answer = adopt(controller, topic, hash_name, **fields)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST"), answer.text
    return str(answer.json()["error_message"])


@pytest.fixture
def foreign(kafka_cluster: LocalCluster) -> str:
    """A topic that no controller manages."""
    return create_topic(kafka_cluster.bootstrap_servers, unique_name("foreign"), PARTITIONS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("client", "hash_name"),
    [
        ("java", "murmur2"),
        pytest.param("murmur2_random", "murmur2", marks=pytest.mark.long),
        ("consistent_random", "crc32"),
    ],
)
def test_keys_of_foreign_clients_stay_in_place(
    cluster: LocalCluster, gateway: JavaGateway, foreign: str, client: str, hash_name: str
) -> None:
    def write(first: int) -> None:
        rows = [*records(first, 200), (None, b"anywhere")]
        # To consistent_random an empty key is none.
        rows += [] if client == "consistent_random" else [(b"", b"empty")]
        if client == "java":
            produce_with_java(gateway, cluster, foreign, rows)
        else:
            produce(cluster, foreign, rows, client)

    write(0)
    with ControllerClient(cluster.controller_url) as api:
        api.adopt_topic(foreign, AdoptTopicRequest(hash=hash_name))
        # They go on under the layout that was adopted.
        write(200)
        assert misrouted(cluster, foreign) == []
        request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=foreign, partition_count=5)])
        (result,) = api.alter_partition_counts(request, wait=TIMEOUT).topics
        if client == "java":
            # Its producer id is known to Kafka for a day; it has stopped, as only its owner can know.
            assert result.error == "ACTIVE_FOREIGN_PRODUCERS"
            forced = updated(request, force=True)
            (result,) = api.alter_partition_counts(forced, wait=TIMEOUT).topics
        assert result.error == "NONE", result
        NumberedWriter(cluster, foreign).write(2)
        assert misrouted(cluster, foreign) == []
        view = api.layout(foreign)
    assert [(one.undeleted_partition_count, one.ordered_delivery) for one in view.layouts] == [
        (3, True),
        (5, True),
    ]
    assert view.layouts[0].starts == [0, 0, 0]
    assert sum(view.layouts[1].starts) >= 400


def test_a_hash_that_does_not_fit_is_refused_with_figures(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    produce(kafka_cluster, foreign, records(0, 300), "murmur2_random")
    told = refused(controller, foreign, "murmur3")
    assert "hash has the value 'murmur3'" in told
    assert "murmur2 300 of 300" in told
    assert "What fits is murmur2;" in told
    assert "offset " in told
    assert controller.http.get(f"/v1/topics/{foreign}").status_code == 404
    assert "What fits is murmur2;" in refused(controller, foreign, "crc32", validate_only=True)
    adopted(controller, foreign, "murmur2", validate_only=True)
    assert controller.http.get(f"/v1/topics/{foreign}").status_code == 404
    adopted(controller, foreign, "murmur3", force=True)
    assert controller.topic(foreign).hash == "murmur3"


def test_what_proves_nothing_is_not_held_against_a_hash(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    """Null keys, and under librdkafka's default empty ones, lie anywhere; the others do not."""
    rows: list[Record] = [(None, b"v"), (b"", b"v")] * 100
    produce(kafka_cluster, foreign, rows, "random")
    adopted(controller, foreign, "crc32", validate_only=True)
    assert "What fits" not in refused(controller, foreign, "murmur2")
    produce(kafka_cluster, foreign, records(0, 100), "consistent_random")
    assert "What fits is crc32;" in refused(controller, foreign, "murmur2")
    adopted(controller, foreign, "crc32")


def test_records_of_an_older_partition_count_are_found(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    """Kafka's own expansion has left them where they were; they are at the starts of the logs only."""
    produce(kafka_cluster, foreign, records(0, 3000), "murmur2_random")
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(foreign, 5)])[foreign].result(TIMEOUT)
    # Or the producer would divide all its records among those that it is shown.
    await_partitions(admin, foreign, 5)
    produce(kafka_cluster, foreign, records(3000, 12_000), "murmur2_random")
    told = refused(controller, foreign, "murmur2")
    assert "No hash fits all, but murmur2 all that was sampled near the ends" in told


def test_aborted_records_and_open_transactions_are_not_sampled(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    produce(kafka_cluster, foreign, records(0, 30), "murmur2_random")
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    for committed in (False, None):
        producer = Producer({**servers, "transactional.id": unique_name("elsewhere")})
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(foreign, key=b"key-1", value=b"in every partition", partition=partition)
        assert producer.flush(TIMEOUT) == 0
        if committed is False:
            producer.abort_transaction(TIMEOUT)
    adopted(controller, foreign)


def test_one_partition_and_an_empty_topic_fit_every_hash(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    adopted(controller, foreign, "murmur3")
    single = create_topic(kafka_cluster.bootstrap_servers, unique_name("single"), 1)
    produce(kafka_cluster, single, records(0, 20), "murmur2_random")
    adopted(controller, single, "crc32")
    view = controller.layout(single)
    assert (view.hash, view.layouts[0].starts, view.layouts[0].leader_epochs) == ("crc32", [0], [0])


def test_a_sample_is_bounded_and_spread(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_PARTITIONS", 2)
    monkeypatch.setattr(sampling, "_RECORDS", 40)
    produce(kafka_cluster, foreign, records(0, 3000), "murmur2_random")
    starts = controller.service.admin.log_starts(foreign, range(PARTITIONS))
    ends = controller.service.admin.log_ends(foreign, range(PARTITIONS))
    logs = {p: (starts[p], ends[p].offset) for p in range(PARTITIONS)}
    sample = sampling.sample_records(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers}, foreign, logs, timeout=TIMEOUT
    )
    assert sample.complete
    found = Counter((record.partition, record.newest) for record in sample.records)
    assert found == {(partition, newest): 10 for partition in (0, 1) for newest in (False, True)}
    for record in sample.records:
        start, end = logs[record.partition]
        assert record.offset < start + 50 if not record.newest else record.offset >= end - 50
    assert (
        sampling.sample_records(
            {"bootstrap.servers": kafka_cluster.bootstrap_servers}, foreign, logs, timeout=0
        ).complete
        is False
    )


@pytest.mark.parametrize(
    ("topic", "body", "status", "error", "words"),
    [
        ("__consumer_offsets", {}, 400, "INVALID_TOPIC_EXCEPTION", "internal"),
        ("a b", {}, 400, "INVALID_TOPIC_EXCEPTION", "'a b'"),
        ("no-such-topic", {}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "does not exist"),
        (
            "any",
            {"hash": "md5"},
            400,
            "INVALID_REQUEST",
            "hash has the value 'md5': one of murmur3, murmur2, crc32",
        ),
        ("any", {"hash": ""}, 400, "INVALID_REQUEST", "hash has the value ''"),
        ("any", {"hahs": "crc32"}, 400, "INVALID_REQUEST", "hahs"),
        ("any", {"force": "yes"}, 400, "INVALID_REQUEST", "force has the value 'yes'"),
    ],
)
def test_wrong_adoption_is_refused(
    controller: InProcess, topic: str, body: dict[str, Any], status: int, error: str, words: str
) -> None:
    answer = controller.http.post(f"/v1/topics/{topic}/adopt", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert words in answer.json()["error_message"]


def test_adopting_twice_or_what_was_created_is_refused(controller: InProcess, foreign: str) -> None:
    adopted(controller, foreign)
    for topic in (foreign, controller.create(1)):
        answer = adopt(controller, topic, force=True)
        assert (answer.status_code, answer.json()["error"]) == (409, "TOPIC_ALREADY_EXISTS")
        assert "under management already" in answer.json()["error_message"]


def test_adoption_ends_a_creation_that_was_cut_off(
    controller: InProcess, kafka_cluster: LocalCluster, foreign: str
) -> None:
    znodes = znodes_of(controller.service)
    creation = CreationRecord(partitions=3, replication_factor=1, hash="crc32", ordered_delivery=True)
    znodes.record_creation(foreign, creation)
    produce(kafka_cluster, foreign, records(0, 30), "murmur2_random")
    adopted(controller, foreign)
    assert (controller.topic(foreign).hash, znodes.creation(foreign)) == ("murmur2", None)


def test_adoption_beside_a_creation_of_the_same_name(controller: InProcess) -> None:
    """Whichever comes first, the topic is the one that was created."""
    with ThreadPoolExecutor() as pool:
        for _ in range(3):
            topic = unique_name("both")
            body = {"topic": topic, "partitions": 2, "hash": "crc32"}
            creation = pool.submit(controller.http.post, "/v1/topics", json=body)
            codes = set()
            while not creation.done():
                codes.add(adopt(controller, topic, "murmur3").status_code)
            codes.add(adopt(controller, topic, "murmur3").status_code)
            assert creation.result().status_code == 201, creation.result().text
            # Unknown, without leaders yet, under management.
            assert codes <= {404, 503, 409}
            assert (controller.topic(topic).hash, controller.topic(topic).layout_epoch) == ("crc32", 0)


def test_command(cluster: LocalCluster, foreign: str) -> None:
    runner = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": cluster.controller_url})
    produce(cluster, foreign, records(0, 100), "consistent_random")
    command = ["topics", "adopt", "--topic", foreign]
    wrong = runner.invoke(app, command)
    assert wrong.exit_code == 1
    assert "What fits is crc32" in wrong.stderr
    checked = runner.invoke(app, [*command, "--hash", "crc32", "--validate-only"])
    assert (checked.exit_code, checked.stdout) == (0, f"topic {foreign} could be adopted with hash crc32\n")
    done = runner.invoke(app, [*command, "--hash", "crc32", "--output", "json"])
    assert (done.exit_code, json.loads(done.stdout)["error"]) == (0, "NONE")
    again = runner.invoke(app, [*command, "--hash", "murmur3", "--force"])
    assert again.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
