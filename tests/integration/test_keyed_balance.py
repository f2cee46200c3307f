"""``jobs/keyed_balance.py``: every balance of every account, in order, through changes and the death of the driver."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pytest
from keyed_balance import amount, check_protobuf
from pyspark.sql import Row

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.job_runs import running, servers, submit
from tests.integration.test_killed_driver import await_batches
from tests.streams import change, conf, create, records_in_order

DEADLINE = 400


@dataclass
class Payments:
    """Writes amounts and knows every balance that follows."""

    cluster: LocalCluster
    topic: str
    accounts: int = 7
    amounts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def pay(self, each: int) -> None:
        """``each`` amounts to each account, some of them negative, the accounts taking turns."""
        servers = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "controller.url": self.cluster.controller_url,
        }
        with OrderedProducer(servers) as producer:
            for _ in range(each):
                for number in range(self.accounts):
                    amounts = self.amounts[f"account-{number}"]
                    amounts.append((len(amounts) * 7 + number) % 23 - 9)
                    producer.produce(self.topic, key=f"account-{number}", value=str(amounts[-1]))

    def balances(self) -> dict[str, list[tuple[int, int]]]:
        """Each account's balances, and of how many records they are made."""
        return {
            account: [(balance, index + 1) for index, balance in enumerate(accumulate(amounts))]
            for account, amounts in self.amounts.items()
        }


def written(cluster: LocalCluster, topic: str) -> dict[str, list[tuple[int, int]]]:
    """What the job wrote per account, in the order of writing."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for message in records_in_order(cluster, topic):
        value = json.loads(message.value() or b"")
        found[(message.key() or b"").decode()].append((value["balance"], value["records"]))
    return found


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_balance_is_right_through_changes_and_a_killed_driver(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 2)
    payments = Payments(cluster, source)
    payments.pay(20)
    change(cluster, source, 3)
    payments.pay(20)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    conf = servers(cluster) | {
        "spark.ordered-kafka.subscribe": source,
        "spark.ordered-kafka.topic": target,
        "spark.ordered-kafka.maxOffsetsPerTrigger": "60",
        "spark.keyed_balance.checkpoint": str(checkpoint),
        "spark.keyed_balance.trigger": "100 milliseconds",
        "spark.sql.shuffle.partitions": "2",
    }
    with running("keyed_balance", conf, log) as process:
        await_batches(process, checkpoint, 2, DEADLINE, lambda: payments.pay(1))
        change(cluster, source, 2)
        change(cluster, target, 4)
        payments.pay(20)
        await_batches(process, checkpoint, 4, DEADLINE, lambda: payments.pay(1))
    payments.pay(10)
    change(cluster, source, 4)
    payments.pay(10)
    expected = payments.balances()
    total = sum(map(len, expected.values()))
    with running("keyed_balance", conf, log) as process:
        change(cluster, target, 3)
        deadline = time.monotonic() + DEADLINE
        while sum(map(len, (found := written(cluster, target)).values())) < total:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{found} within {DEADLINE} s"
    assert written(cluster, target) == expected


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"account-1", b"much", "the value b'much' is no amount, a whole number as text"),
        (b"account-1", None, "the value None is no amount, a whole number as text"),
        (None, b"5", "the record has no key, which would be the account"),
    ],
)
def test_a_record_that_is_no_payment_is_named(key: bytes | None, value: bytes | None, why: str) -> None:
    row = Row(key=key, value=value, topic="payments", partition=2, offset=17, layout_epoch=1)
    with pytest.raises(ValueError, match=f"^payments-2, offset 17: {why}$"):
        amount(row)


def test_what_keyed_state_needs_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    check_protobuf()
    monkeypatch.delitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2")
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(
        ConfigError, match=r"protobuf is missing: .* pip install 'spark-ordered-kafka\[state\]'"
    ):
        check_protobuf()


def test_an_amount_may_be_negative() -> None:
    row = Row(key=b"account-1", value=b"-5", topic="payments", partition=2, offset=17, layout_epoch=1)
    assert amount(row) == -5


@pytest.mark.long
def test_a_record_that_is_no_payment_ends_the_job(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 1)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(source, key="account-1", value="much")
    settings = {
        "spark.ordered-kafka.subscribe": source,
        "spark.ordered-kafka.topic": target,
        "spark.keyed_balance.checkpoint": str(tmp_path / "checkpoint"),
        "spark.keyed_balance.trigger": "availableNow",
        "spark.sql.shuffle.partitions": "1",
    }
    result = submit("keyed_balance", servers(cluster) | settings)
    assert result.returncode != 0
    assert f"{source}-0, offset 0: the value b'much' is no amount" in result.stderr
    assert records_in_order(cluster, target) == []
