"""Conditions under which a server is ready, and waiting for them."""

from __future__ import annotations

import logging
import operator
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.secrets import CONTROLLER, Secrets

Condition = Callable[[], bool]

# Clients report every refused connection, which is the normal state of a server that is starting.
QUIET = logging.getLogger(f"{__name__}.clients")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def wait_until(
    condition: Condition, *, timeout: float, otherwise: Callable[[], str], check: Callable[[], None]
) -> None:
    """Ask for ``condition`` until it holds, calling ``check`` each time before.

    Args:
        condition: answers within a second or so.
        timeout: seconds after which to give up.
        otherwise: gives the error's text when it never held.
        check: raises when waiting makes no sense any more.

    Raises:
        LocalClusterError: ``condition`` did not hold in time.
    """

    def step() -> bool:
        check()
        return condition()

    retrying = Retrying(
        retry=retry_if_result(operator.not_), stop=stop_after_delay(max(timeout, 0)), wait=wait_fixed(0.05)
    )
    try:
        retrying(step)
    except RetryError:
        raise LocalClusterError(otherwise()) from None


@contextmanager
def zookeeper_serves(address: str, secrets: Secrets | None) -> Iterator[Condition]:
    """Condition: the ZooKeeper server at ``address`` opens sessions (in an ensemble: it has found its quorum).

    ``secrets``: of a secured cluster.
    """
    tls = {} if secrets is None else _tls(secrets)
    client = KazooClient(
        hosts=address,
        logger=QUIET,
        **tls,
        connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 1, "max_jitter": 0.0},
    )
    connected = client.start_async()
    try:
        yield lambda: bool(connected.wait(timeout=0.5))
    finally:
        client.stop()
        client.close()


@contextmanager
def broker_serves(kafka: Mapping[str, str], members: Collection[int]) -> Iterator[Condition]:
    """Condition: the broker answers and knows the brokers ``members`` as registered.

    ``kafka`` has librdkafka's properties, with this broker alone in ``bootstrap.servers``.

    A broker opens its client listener after it has joined the KRaft controller, so only its own answer counts: others may
    still list it from before a crash.
    """
    client = AdminClient(
        {**kafka, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 5000},
        logger=QUIET,
    )

    def condition() -> bool:
        try:
            return set(members) <= client.list_topics(timeout=1).brokers.keys()
        except KafkaException:
            return False

    yield condition


@contextmanager
def http_ready(url: str, ca: Path | None) -> Iterator[Condition]:
    """Condition: ``GET url``, a controller's ``/readyz``, answers 200 and names a leader.

    ``ca`` has signed the server's certificate.
    """
    verify = True if ca is None else ssl.create_default_context(cafile=ca)
    # Environment proxies are of no use on the loopback interface.
    with httpx2.Client(trust_env=False, timeout=2, verify=verify) as client:

        def condition() -> bool:
            try:
                answer = client.get(url)
                return answer.status_code == httpx2.codes.OK and answer.json()["leader"] is not None
            except httpx2.TransportError:
                return False

        yield condition


def _tls(secrets: Secrets) -> dict[str, Any]:
    return {
        "use_ssl": True,
        "check_hostname": True,
        "ca": str(secrets.ca),
        "certfile": str(secrets.certificate(CONTROLLER)),
        "keyfile": str(secrets.key(CONTROLLER)),
    }
