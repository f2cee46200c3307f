"""Transactions that no coordinator will end; ``test_cli_doctor`` has how one is found and ended."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess
from tests.servers import TIMEOUT, await_true


def test_one_that_ends_meanwhile_does_not_hang(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open in the log when that is read, and ended when its coordinator is asked."""
    topic = controller.create(1)
    producer = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "transactional.id": f"ordered:{topic}:w:0",
            "log_level": 3,
        }
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(TIMEOUT) == 0
    asked = Fencer.transactions_of
    known: list[Any] = []

    def late(fencer: Fencer, *arguments: Any) -> Any:
        producer.commit_transaction(TIMEOUT)

        def has_ended() -> bool:
            """The commit returns before its markers are written: so long the coordinator names the partitions."""
            known[:] = [asked(fencer, *arguments)]
            return not any(owner.partitions for owner in known[0].values())

        await_true(has_ended, "the transaction has ended")
        return known[0]

    monkeypatch.setattr(Fencer, "transactions_of", late)
    answer = controller.http.get(f"/v1/topics/{topic}/hanging-transactions")
    assert answer.json() == {"topic": topic, "transactions": []}, answer.text
    ((owner,),) = [found.values() for found in known]
    assert (owner.transactional_id, owner.partitions) == (f"ordered:{topic}:w:0", frozenset())
