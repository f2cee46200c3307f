"""Brokers, ZooKeeper and controllers at IPv6 addresses, which have brackets wherever a port follows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Message
from typer.testing import CliRunner

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster, servers
from tests.integration.controller_process import running
from tests.integration.controllers import free_port
from tests.other_brokers import choose
from tests.servers import await_true
from tests.streams import NumberedWriter, change, conf, create, judged


@pytest.mark.long
def test_order_holds_and_addresses_are_shown_as_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is asked of a controller that leads it to the leader."""
    choose("ipv6", monkeypatch)
    usual = servers.zookeeper_properties
    both = {"clientPortAddress": "::"}
    monkeypatch.setattr(servers, "zookeeper_properties", lambda *about: usual(*about) | both)
    with LocalCluster(tmp_path, controllers=0) as cluster:
        broker, zookeeper = (
            one.replace("127.0.0.1", "[::1]") for one in (cluster.bootstrap_servers, cluster.zookeeper)
        )
        with (
            running(broker, zookeeper, free_port(), host="::1") as leader,
            running(broker, zookeeper, free_port(), host="::1") as follower,
        ):
            with ControllerClient(follower) as client:
                assert client.controllers().leader == leader
            there = cast("LocalCluster", SimpleNamespace(bootstrap_servers=broker, controller_url=follower))
            topic = create(there, "numbers", 2)
            writer = NumberedWriter(there, topic)
            writer.write(3)
            change(there, topic, 5)
            writer.write(3)
            change(there, topic, 3)
            writer.write(3)
            read: list[Message] = []
            with OrderedConsumer(conf(there, group_id="readers", auto_offset_reset="earliest")) as consumer:
                consumer.subscribe([topic])

                def are_read() -> bool:
                    read.extend(consumer.consume(500, 0.2))
                    return len(read) >= writer.written

                await_true(are_read, "all records are read")
            report = judged(read, writer.written)
            assert report.violations == 0, report
            findings = _findings(broker, follower)
    assert {f"broker 1 is reached at {broker}", f"{leader} leads"} <= findings.keys()


def _findings(broker: str, controller: str) -> dict[str, str]:
    words = ["doctor", "--output", "json", "--bootstrap-server", broker, "--controller", controller]
    found = json.loads(CliRunner().invoke(app, words).stdout)["findings"]
    return {part: one["status"] for one in found for part in one["message"].split("; ")}
