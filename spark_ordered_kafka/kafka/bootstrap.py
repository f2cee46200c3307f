"""Opening kafka-python's connections to a cluster, and saying early which property does not fit the brokers' listener."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.cluster import collect_hosts
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataResponse

from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.security import kafka_python_options, refusal, speaks_tls

if TYPE_CHECKING:
    from spark_ordered_kafka.kafka.tokens import ClientCredentials

REQUEST_TIMEOUT = 10.0
"""Seconds after which a broker that has not answered a request is taken for hung and its connection is closed."""

ASK_ANOTHER = 2.0
"""Seconds after which another broker is asked what any of them knows."""

# A broker handles the requests of one connection one after another, so a long queue does no harm, while kafka-python
# refuses a request beyond the limit instead of queueing it.
_MAX_IN_FLIGHT = 1000

_FIRST_PATIENCE = 1.0
# Seconds after which a broker that owes an answer is not the one to be asked: it would be asked again.
_LONG = ASK_ANOTHER / 2
_NO_MECHANISM = "NONE"


def connect(
    properties: Mapping[str, str], timeout: float, tokens: ClientCredentials | None = None
) -> tuple[KafkaAdminClient, Manager]:
    """A client that has reached one of the servers, and its connections.

    They are tried one after another, in rounds that leave each more time: given several, kafka-python picks one at
    random and may wait the whole timeout for a host that is down.

    Args:
        properties: as :func:`~spark_ordered_kafka.kafka.security.checked` returns them.
        timeout: seconds.
        tokens: for a login by OAUTHBEARER.

    Raises:
        ConfigError: a property is wrong, or does not fit the listener of a server.
        RequestError: SASL_AUTHENTICATION_FAILED.
        UnavailableError: none of the servers answers.
    """
    options = kafka_python_options(properties) | (
        {} if tokens is None else {"sasl_oauth_token_provider": tokens}
    )
    servers = properties["bootstrap.servers"].split(",")
    try:
        collect_hosts(servers)
    except ValueError as error:
        hint = f"give host:port,... ({error})"
        raise ConfigError("kafka.bootstrap.servers", properties["bootstrap.servers"], hint) from error
    random.shuffle(servers)
    deadline = time.monotonic() + timeout
    patience = _FIRST_PATIENCE
    failures: dict[str, BaseException | None] = {}
    while True:
        for server in servers:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise UnavailableError(_no_answer(properties, timeout, failures))
            started: list[_Started] = []
            try:
                client = _client(server, min(patience, remaining), properties, options, started)
                started[0].manager.fall_back_to(servers)
                return client, started[0].manager
            except kafka_errors.KafkaTimeoutError:
                manager = started[0].manager
                if server not in failures:
                    _check_protocol(server, properties, options, manager)
                failures[server] = manager.failure
            except kafka_errors.KafkaError as error:
                raise UnavailableError(f"{server} does not answer as a Kafka broker: {error}") from error
        patience *= 2


class Manager(KafkaConnectionManager):  # type: ignore[misc] # kafka-python is not typed
    """Ends a bootstrap at the first error that no retry can mend, where kafka-python would retry until the time is up.

    Finds the cluster again by its first servers when no broker that it knows answers any more (KIP-899), where
    kafka-python (3.0) asks those for ever (D-467).

    ``net`` is the network loop; ``failure`` is why the last connection was not made; ``greeted``: a broker has answered
    over one.
    """

    def __init__(self, net: NetworkSelector, properties: Mapping[str, str], **config: Any) -> None:
        super().__init__(net, **config)
        self.net = net
        self._properties = properties
        self._apart: set[tuple[int | str | None, int]] = set()
        self.failure: BaseException | None = None
        self.greeted = False

    def fall_back_to(self, servers: Sequence[str]) -> None:
        """Ask ``servers``, each host:port, where no broker that is known answers."""
        self.cluster.config["bootstrap_servers"] = list(servers)
        self.cluster._bootstrap_brokers = self.cluster._generate_bootstrap_brokers()

    @contextmanager
    def apart(self, node: int | str | None) -> Iterator[str]:
        """A connection to broker ``node`` over which nothing else is sent before the end of the block; its node id.

        A broker reads the next request of a connection when it has answered the one before, and when a quota lets it.
        """
        broker = self.cluster.broker_metadata(node)
        if broker is None:
            raise kafka_errors.UnknownBrokerIdError(node)
        number = next(number for number in itertools.count() if (node, number) not in self._apart)
        node_id = f"apart-{node}-{number}"
        # As kafka-python makes connections to coordinators.
        self.cluster._coordinator_brokers[node_id] = MetadataResponse.MetadataResponseBroker(
            node_id, broker.host, broker.port, None
        )
        self._apart.add((node, number))
        try:
            yield node_id
        finally:
            self._apart.remove((node, number))
            connection = self._conns.get(node_id)
            if connection is not None and not _is_idle(connection):
                connection.close()

    def least_loaded_node(self) -> int | str | None:
        known: int | str | None = super().least_loaded_node()
        if known is not None and known not in self._backoff and not self._hangs(known):
            return known
        first = [broker.node_id for broker in self.cluster.bootstrap_brokers()]
        # These may have failed before: one that has is tried again after a pause.
        ready = [node for node in first if self.connection_delay(node) == 0 and not self._hangs(node)]
        return random.choice(ready) if ready else known

    def _hangs(self, node: int | str) -> bool:
        """Whether a connection is not made yet although a request waits for it, or an answer has not come for long."""
        connection = self._conns.get(node)
        if connection is None or not connection.connected:
            return connection is not None and bool(connection._request_buffer)
        sent = [sent_at for _, _, sent_at, *_ in connection.in_flight_requests]
        return bool(sent) and time.monotonic() >= sent[0] + _LONG

    def get_connection(self, *args: Any, **options: Any) -> Any:
        if not self.bootstrapped and self.failure is not None:
            refused = refusal(self.failure, self._properties)
            if refused is not None:
                raise refused from self.failure
        connection = super().get_connection(*args, **options)
        connection.init_future.add_callback(self._greet)
        connection.init_future.add_errback(self._note)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        # kafka-python has no deadline for the handshake of TLS: a broker that hangs in it would block for good.
        latest = time.monotonic() + REQUEST_TIMEOUT
        at = latest if timeout_at is None else min(timeout_at, latest)
        building = self.call_soon(super()._build_transport(node, timeout_at=at))
        try:
            transport = await self.wait_for(building, 1000 * max(at - time.monotonic(), 0.0))
        except kafka_errors.KafkaTimeoutError:
            building.add_callback(lambda late: late.close())
            raise
        transport._sock_recv = _complete(transport._sock_recv)
        return transport

    def _greet(self, _: object) -> None:
        self.greeted = True

    def _note(self, failure: BaseException) -> None:
        self.failure = failure


def _is_idle(connection: Any) -> bool:
    return connection.connected and not connection.paused and not connection.in_flight_requests


@dataclass(frozen=True)
class _Started:
    client: KafkaNetClient
    manager: Manager


def _complete(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """``receive``, but what came before the end of a connection is taken first.

    kafka-python throws it away, and it is how a broker says why it refuses a login.
    """
    ended: list[Any] = []

    def received() -> tuple[bytes, Any]:
        if ended:
            return b"", ended.pop()
        data, error = receive()
        if data and error is not None:
            ended.append(error)
            return data, None
        return data, error

    return received


def _check_protocol(
    server: str, properties: Mapping[str, str], options: Mapping[str, Any], manager: Manager
) -> None:
    """Raises ConfigError if the server turns out to speak another ``security.protocol`` than the one that was tried.

    A broker closes a connection over which it gets something else than it expects, and does not say why.
    """
    protocol = properties["security.protocol"]
    transport = protocol.removeprefix("SASL_")
    found = None
    if manager.greeted and transport == protocol:
        login = {**options, "security_protocol": f"SASL_{protocol}", "sasl_mechanism": _NO_MECHANISM}
        if isinstance(_probe(server, properties, login).failure, kafka_errors.UnsupportedSaslMechanismError):
            found = f"SASL_{protocol}"
    elif manager.failure is not None and transport == "SSL":
        if _probe(server, properties, {"security_protocol": "PLAINTEXT"}).greeted:
            found = "PLAINTEXT or SASL_PLAINTEXT"
    elif manager.failure is not None:
        host, _, port = server.rpartition(":")
        found = "SSL or SASL_SSL" if speaks_tls(host.strip("[]"), int(port)) else None
    if found is not None:
        raise ConfigError("kafka.security.protocol", protocol, f"the listener at {server} speaks {found}")


def _probe(server: str, properties: Mapping[str, str], options: Mapping[str, Any]) -> Manager:
    """How far a connection with other options gets, which carry no user's name or password."""
    started: list[_Started] = []
    # It is expected to fail; the manager has the reason.
    with suppress(kafka_errors.KafkaError, OrderedKafkaError):
        _client(server, _FIRST_PATIENCE, properties, options, started).close()
    return started[0].manager


def _no_answer(
    properties: Mapping[str, str], timeout: float, failures: Mapping[str, BaseException | None]
) -> str:
    text = f"no Kafka broker answers at {properties['bootstrap.servers']} within {timeout:g} s"
    reasons = "; ".join(f"{server}: {error}" for server, error in failures.items() if error is not None)
    return f"{text} ({reasons})" if reasons else text


def _client(
    server: str,
    bootstrap_timeout: float,
    properties: Mapping[str, str],
    options: Mapping[str, Any],
    started: list[_Started],
) -> KafkaAdminClient:
    """A client of one server; its connections are put into ``started``, also when it does not answer."""

    def net_client(**config: Any) -> KafkaNetClient:
        # A step that waited for a busy processor would be reported as a "likely tight sync loop".
        net = NetworkSelector(slow_task_threshold_secs=0, **config)
        manager = Manager(net, properties, **config)
        started.append(_Started(KafkaNetClient(net=net, manager=manager), manager))
        return started[0].client

    try:
        return KafkaAdminClient(
            bootstrap_servers=server,
            bootstrap_timeout_ms=1000 * bootstrap_timeout,
            request_timeout_ms=1000 * REQUEST_TIMEOUT,
            # A broker that restarts must be found again within the time a partition change has for closing.
            reconnect_backoff_max_ms=500,
            max_in_flight_requests_per_connection=_MAX_IN_FLIGHT,
            kafka_client=net_client,
            **options,
        )
    except BaseException:
        # The constructor has started the loop's thread by now, and leaves it running when no broker answers.
        for one in started:
            one.client.close()
        raise
