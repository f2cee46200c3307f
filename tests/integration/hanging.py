"""A transaction that hangs: a late record of a producer makes it, which brokers without KIP-890 take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient, ResourceType
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error
from tests.servers import TIMEOUT, alter_configs

_BROKER = "1"
_VERIFICATION = {"transaction.partition.verification.enable": "false"}
# With later ones the broker itself adds the partition to the transaction.
_ADDED_BY_PRODUCER = {"max_version": 11}


def hang(kafka: Mapping[str, str], topic: str, transactional_id: str, *, known: bool, age: float) -> None:
    """Write a record, ``age`` seconds old, of a transaction of which the coordinator has never heard, to partition 0.

    The cluster has one broker. ``known``: whether the coordinator knows the producer at least.
    """
    admin = AdminClient({**kafka, "log_level": 3})
    alter_configs(admin, ResourceType.BROKER, _BROKER, _VERIFICATION)
    requests = BrokerRequests(kafka, TIMEOUT)
    try:
        requests.retry(
            partial(_write, requests, topic, transactional_id, known, time.time() - age),
            time.monotonic() + TIMEOUT,
            "write a transaction that hangs",
            # A broker learns of its configuration a moment after that is altered.
            transient=lambda _: True,
        )
    finally:
        requests.close()
        alter_configs(admin, ResourceType.BROKER, _BROKER, dict.fromkeys(_VERIFICATION))


async def _write(
    requests: BrokerRequests, topic: str, transactional_id: str, known: bool, at: float, deadline: float
) -> None:
    initialise = InitProducerIdRequest(
        transactional_id=transactional_id if known else None, transaction_timeout_ms=60_000
    )
    producer = _checked(await requests.send(initialise, None, deadline))
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        batch_size=1 << 16,
    )
    batch.append(0, int(1000 * at), b"key", b"value", [])
    data = ProduceRequest.TopicProduceData
    rows = [data.PartitionProduceData(index=0, records=bytes(batch.build()))]
    write = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic, partition_data=rows)],
        **_ADDED_BY_PRODUCER,
    )
    answer = await requests.send(write, None, deadline)
    _checked(answer.responses[0].partition_responses[0])


def _checked(row: Any) -> Any:
    if row.error_code != 0:
        raise broker_error(row.error_code)
    return row
