"""Kafka's quotas (KIP-13, KIP-124, KIP-599): what brokers take of clients at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from kafka.protocol.admin import AlterClientQuotasRequest

from spark_ordered_kafka.kafka.requests import BrokerRequests
from tests.servers import TIMEOUT


def limit(
    kafka: Mapping[str, str] | str, quota: str, rate: float | None, client_id: str | None = None
) -> None:
    """Set a quota of a client id (None: of each that has none of its own); None for ``rate`` takes it away.

    ``kafka``: the cluster's ``bootstrap.servers``, or these and more of librdkafka's properties.

    ``quota``: ``producer_byte_rate`` and ``consumer_byte_rate`` in bytes a second, ``request_percentage`` of a broker's
    thread, ``controller_mutation_rate`` in partitions a second.
    """
    row = AlterClientQuotasRequest.EntryData
    entity = row.EntityData(entity_type="client-id", entity_name=client_id)
    change = row.OpData(key=quota, value=rate or 0.0, remove=rate is None)
    request = AlterClientQuotasRequest(entries=[row(entity=[entity], ops=[change])], validate_only=False)
    with closing(BrokerRequests(kafka, TIMEOUT)) as requests:
        answer = requests.retry(
            lambda deadline: requests.send(request, None, deadline), time.monotonic() + TIMEOUT, "limit"
        )
    assert [one.error_code for one in answer.entries] == [0], answer
