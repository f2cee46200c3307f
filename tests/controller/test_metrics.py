"""What Prometheus reads: every line parses, and names follow its conventions."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.monitoring import scraping
from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.controller.monitoring.scraping import ControllerCollector, Sampled
from spark_ordered_kafka.controller.shared_query import SharedQuery
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.moves import Moves
from tests.servers import TIMEOUT

FOREIGN = ("process_", "python_")
BROKERS = schemas.BrokerList(
    brokers=[
        schemas.BrokerView.model_construct(id=1, rack=None, hosted=7, max_partitions=10, capacity=3),
        schemas.BrokerView.model_construct(id=2, rack=None, hosted=12, max_partitions=10, capacity=0),
    ]
)


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) -> value."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"ordered_kafka_{name}", tuple(sorted(labels.items()))))


def change(step: Any = "planned", **fields: Any) -> Change:
    return Change("c1", "t", "expand", source=2, target=4, existing=2, started_at=100.0, step=step, **fields)


def finished() -> FinishedChange:
    return FinishedChange(
        id="c1",
        kind="expand",
        source=2,
        target=4,
        outcome="done",
        started_at=100.0,
        finished_at=103.0,
        writer_pause_seconds=0.2,
        fenced=5,
    )


def collector(observer: ChangeObserver, *, leads: bool = True, brokers: Any = lambda: BROKERS) -> Any:
    return ControllerCollector(
        leads=lambda: leads,
        leader=lambda: LeaderRecord(id="a", url="http://a", epoch=17),
        session_state=lambda: "CONNECTED",
        observer=observer,
        brokers=Sampled(SharedQuery("brokers", brokers, lambda: 0.0)),
        moves=Sampled(SharedQuery("moves", lambda: Moves(2, 30, 100), lambda: 0.0)),
        clock=lambda: 110.0,
    )


def observed() -> tuple[Metrics, ChangeObserver]:
    metrics = Metrics()
    return metrics, ChangeObserver(metrics, AuditLog(None, lambda: 0.0))


def test_every_metric_is_named_as_prometheus_wants_it() -> None:
    metrics, observer = observed()
    metrics.watch(collector(observer))
    metrics.observe_request("GET", "/v1/topics/{topic}", 200, 0.01)
    metrics.observe_change(finished())
    metrics.observe_step("expand", "fencing", 0.1)
    metrics.count_misrouted("t", 3)
    families = list(text_string_to_metric_families(metrics.exposition().decode()))
    for family in families:
        assert family.documentation, family.name
        if family.name.startswith(FOREIGN):
            continue
        assert family.name.startswith("ordered_kafka_")
        assert family.type in ("counter", "gauge", "histogram"), family
        if family.type == "histogram":
            assert family.name.endswith("_seconds"), family.name
        for sample in family.samples:
            if family.type == "counter":
                assert sample.name.endswith(("_total", "_created")), sample
            if family.type == "gauge":
                assert not sample.name.endswith("_total"), sample
    assert value(metrics, "misrouted_records_total", topic="t") == 3
    assert {"process_cpu_seconds", "python_gc_collections"} <= {family.name for family in families}


def test_requests_are_counted_by_method_route_and_status() -> None:
    metrics, _ = observed()
    metrics.observe_request("GET", "/v1/topics/{topic}", 200, 0.003)
    metrics.observe_request("GET", "/v1/topics/{topic}", 404, 0.003)
    metrics.observe_request("BREW", "none", 404, 0.003)
    route = {"method": "GET", "route": "/v1/topics/{topic}"}
    assert value(metrics, "http_requests_total", **route, status="200") == 1
    assert value(metrics, "http_requests_total", **route, status="404") == 1
    # A client cannot make ever more series.
    assert value(metrics, "http_requests_total", method="other", route="none", status="404") == 1
    assert value(metrics, "http_request_duration_seconds_count", **route) == 2
    assert value(metrics, "http_request_duration_seconds_bucket", **route, le="0.0025") == 0
    assert value(metrics, "http_request_duration_seconds_bucket", **route, le="0.005") == 2


def test_a_change_is_followed_from_step_to_step() -> None:
    metrics, observer = observed()
    metrics.watch(collector(observer))
    observer.reached(change(), 100.0)
    observer.reached(change("creating"), 100.5)
    observer.reached(change("creating", fenced=3), 101.0)
    assert value(metrics, "changes_running", kind="expand", step="creating") == 1
    observer.reached(change("fencing", closing_at=102.25), 102.5)
    assert value(metrics, "change_age_seconds", kind="expand") == 10.0
    assert value(metrics, "writers_held_seconds", kind="expand") == 7.75
    assert value(metrics, "changes_running", kind="expand", step="creating") is None
    done: Future[FinishedChange] = Future()
    done.set_result(finished())
    observer.left(change("fencing"), done, 103.0)
    for step, seconds in (("planned", 0.5), ("creating", 2.0), ("fencing", 0.5)):
        assert value(metrics, "change_step_duration_seconds_sum", kind="expand", step=step) == seconds
    for gauge, labels in (
        ("changes_running", {"step": "fencing"}),
        ("change_age_seconds", {}),
        ("writers_held_seconds", {}),
    ):
        assert value(metrics, gauge, kind="expand", **labels) is None
    assert value(metrics, "changes_total", kind="expand", outcome="done") == 1
    assert value(metrics, "change_duration_seconds_sum", kind="expand", outcome="done") == 3.0
    assert value(metrics, "writer_pause_seconds_sum", kind="expand") == 0.2
    assert value(metrics, "fences_total") == 5


def test_a_change_left_to_another_controller_has_not_ended() -> None:
    metrics, observer = observed()
    observer.reached(change("closing"), 100.0)
    done: Future[FinishedChange] = Future()
    done.set_exception(DeposedError())
    observer.left(change("closing"), done, 103.0)
    assert value(metrics, "changes_total", kind="expand", outcome="done") is None
    assert observer.running() == {}


def test_the_cluster_is_shown_by_the_leader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Also where the thread that asks stands still for more than a second.
    monkeypatch.setattr(scraping, "_FIRST_WAIT", TIMEOUT)
    for leads in (True, False):
        metrics, observer = observed()
        metrics.watch(collector(observer, leads=leads))
        assert value(metrics, "controller_is_leader") == leads
        assert value(metrics, "controller_epoch") == 17
        assert value(metrics, "zookeeper_session", state="connected") == 1
        assert value(metrics, "zookeeper_session", state="lost") == 0
        assert value(metrics, "broker_capacity", broker="1") == (3 if leads else None)
        assert value(metrics, "broker_partitions", broker="2") == (12 if leads else None)
        assert value(metrics, "broker_max_partitions", broker="2") == (10 if leads else None)
        assert value(metrics, "reassignment_copied_bytes") == (30 if leads else None)
        assert value(metrics, "reassignment_bytes") == (100 if leads else None)


def test_a_scrape_does_not_wait_for_a_broker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    release, now = threading.Event(), [0.0]
    calls = []

    def take() -> int:
        calls.append(now[0])
        if len(calls) > 1:
            release.wait(30.0)
        return len(calls)

    sampled = Sampled(SharedQuery("brokers", take, lambda: now[0]))
    with monkeypatch.context() as patched:
        patched.setattr(scraping, "_FIRST_WAIT", TIMEOUT)
        assert sampled.get() == 1
    assert sampled.get() == 1
    assert len(calls) == 1
    now[0] = 20.0
    # The second look hangs; what the first has found is shown until it is too old.
    assert sampled.get() == 1
    assert sampled.get() == 1
    now[0] = 121.0
    assert sampled.get() is None
    release.set()


def test_a_cluster_that_cannot_be_asked_has_no_figures() -> None:
    def refuse() -> schemas.BrokerList:
        raise UnavailableError("no broker answers")

    metrics, observer = observed()
    metrics.watch(collector(observer, brokers=refuse))
    assert value(metrics, "broker_capacity", broker="1") is None
    assert value(metrics, "controller_is_leader") == 1
