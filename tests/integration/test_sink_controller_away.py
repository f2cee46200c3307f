"""Writes whose controller goes away: the reason is in the error, and the wait has a limit that an option sets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.integration.replaying import Replayed, once
from tests.streams import FORMAT, create, options


class Gateway:
    """Passes questions on to the controller: the next ``left`` ones; the others find nobody."""

    def __init__(self, controller: str) -> None:
        self.left = 0
        self._lock = threading.Lock()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not gateway.takes():
                    self.close_connection = True
                    return
                answer = httpx2.get(controller + self.path, timeout=10)
                self.send_response(answer.status_code)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def takes(self) -> bool:
        """Whether one more question is passed on."""
        with self._lock:
            self.left -= 1
            return self.left >= 0


@contextmanager
def gateway_to(cluster: LocalCluster) -> Iterator[Gateway]:
    """A gateway to the cluster's controller."""
    gateway = Gateway(cluster.controller_url)
    thread = threading.Thread(target=gateway.server.serve_forever)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.server.shutdown()
        gateway.server.server_close()
        thread.join()


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(0, id="before it is planned", marks=pytest.mark.long),
        pytest.param(1, id="once it is planned"),
    ],
)
def test_the_first_micro_batch_says_that_no_controller_answers(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, answers: int
) -> None:
    create(cluster, topic_name, 2)
    with gateway_to(cluster) as gateway:
        sink = {"topic": topic_name, "controller.url": gateway.url, "controllerTimeout": "500ms"}
        query = Replayed(cluster, spark, tmp_path, sink=sink)
        query.give(0, range(10))
        gateway.left = answers
        with pytest.raises(Exception, match="no controller answered") as caught:
            query.run(2, "n % 2")
        assert "Writing job failed" not in str(caught.value)
        if answers > 0:
            assert f"no layout of topic '{topic_name}' within 0.5 s (option controllerTimeout)" in str(
                caught.value
            )
        gateway.left = 100
        query.run(2, "n % 2")
        assert query.written(topic_name) == once(range(10))


def test_a_batch_write_says_so_when_it_is_planned(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    rows = spark.range(1).selectExpr("'v' AS value")
    with gateway_to(cluster) as gateway:
        given = options(cluster, topic=topic_name) | {
            "controller.url": gateway.url,
            "controllerTimeout": "500ms",
        }
        write = rows.write.format(FORMAT).options(**given).mode("append")
        gateway.left = 100
        write.save()
        gateway.left = 0
        with pytest.raises(Exception, match="no controller answered") as planned:
            write.save()
        assert "Job aborted" not in str(planned.value), "although this process has asked for the topic before"
        gateway.left = 1
        with pytest.raises(
            Exception, match=r"(?s)within 0\.5 s \(option controllerTimeout\).*no controller answered"
        ):
            write.save()
