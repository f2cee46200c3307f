"""Brokers that stop between the placement of replicas and Kafka's answer about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError


@contextmanager
def placed(given: object | None) -> Iterator[None]:
    """Raises UnavailableError where Kafka refuses brokers in the block that no caller has ``given``.

    Kafka takes no partition all of whose brokers are fenced or in controlled shutdown (INVALID_REPLICA_ASSIGNMENT), and its
    metadata shows these for a while. The next placement has others (D-462).
    """
    try:
        yield
    except RequestError as error:
        if given is not None or error.code != ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            raise
        raise UnavailableError(
            f"{error.message} They have stopped meanwhile; send the request again"
        ) from error
