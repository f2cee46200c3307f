"""docs/metrics.md has every metric of a real controller, of the plain clients and of queries, and no other."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_ordered_kafka import ClientMetrics, OrderedKafkaListener, OrderedProducer
from tests.integration.controllers import InProcess
from tests.integration.members import Room, all_of
from tests.metric_names import documented
from tests.servers import await_true
from tests.streams import conf, written_through

# prometheus-client's own: of the process, of Python's garbage collector, and when a series began.
FOREIGN, BEGUN = ("process_", "python_"), "_created"


def exposed(text: str) -> dict[str, tuple[str, str, set[frozenset[str]]]]:
    """By name, as it is in PromQL without ``_bucket``, ``_sum`` and ``_count``: kind, help, and the labels of each series."""
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(FOREIGN) or family.name.endswith(BEGUN):
            continue
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        found[name] = (family.type, family.documentation, labels)
    return found


def of_all_families(controller: InProcess) -> dict[str, tuple[str, str, set[frozenset[str]]]]:
    """What a controller exposes, once its samples of Kafka's state are there: a scrape waits a second for the first."""
    found: dict[str, tuple[str, str, set[frozenset[str]]]] = {}

    def is_sampled() -> bool:
        found.clear()
        found.update(exposed(controller.http.get("/metrics").text))
        return {"ordered_kafka_broker_capacity", "ordered_kafka_reassigning_partitions"} <= found.keys()

    await_true(is_sampled, "samples of brokers and of moves")
    return found


def test_the_page_has_all_metrics(controller: InProcess, room: Room, topic_name: str) -> None:
    topic = controller.create(1)
    assert controller.alter(topic, 2).error == "NONE"
    listener = OrderedKafkaListener(registry=CollectorRegistry())
    writer = written_through(room.cluster, topic_name, 1)
    member = room.member(topic_name)
    all_of(member, writer.written)
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "v", "k")
        producer.flush()
        clients = CollectorRegistry()
        clients.register(ClientMetrics(producer, member.consumer))
        found = of_all_families(controller)
        found |= exposed(generate_latest(clients).decode())
    found |= exposed(generate_latest(listener._registry).decode())
    rows = documented()
    assert {(row.name, row.kind, row.meaning) for row in rows} == {
        (name, kind, meaning) for name, (kind, meaning, _) in found.items()
    }
    wrong = {row.name: found[row.name][2] for row in rows if found[row.name][2] - {row.labels}}
    assert wrong == {}
