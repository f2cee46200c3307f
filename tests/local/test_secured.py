"""Certificates, passwords and configuration files of a secured cluster, without its servers."""

from __future__ import annotations

import itertools
import ssl
import stat
import sys
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.config import controller_config, read_file
from spark_ordered_kafka.kafka.security import checked, ssl_context
from spark_ordered_kafka.local import secured, servers
from spark_ordered_kafka.local.plan import Parameters, new_state, resize_controllers
from spark_ordered_kafka.local.secrets import BROKER, CONTROLLER, USERS, ZOOKEEPER, Secrets
from spark_ordered_kafka.local.state import ClusterState
from spark_ordered_kafka.spark.options import source_options


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    made = servers.secrets_of(tmp_path)
    made.create()
    return made


def secure_state(brokers: int = 1, zookeepers: int = 1) -> ClusterState:
    ports = itertools.count(20000)
    state = new_state(Parameters(secure=True, brokers=brokers, zookeepers=zookeepers), ports)
    resize_controllers(state, 2, ports)
    return state


def test_every_broker_has_a_port_for_certificates_and_controllers_speak_https() -> None:
    state = secure_state(brokers=2, zookeepers=3)
    ports = [port for server in state.servers for port in server.ports]
    assert len(ports) == len(set(ports)) == 2 * 2 + 1 + 3 * 3 + 2
    assert [server.url for server in state.of("controller")] == [
        f"https://127.0.0.1:{server.port}" for server in state.of("controller")
    ]


def test_a_second_creation_changes_nothing(secrets: Secrets) -> None:
    before = {path: path.read_bytes() for path in secrets.directory.rglob("*") if path.is_file()}
    secrets.create()
    assert {path: path.read_bytes() for path in secrets.directory.rglob("*") if path.is_file()} == before
    assert len({secrets.password(user) for user in (*USERS, CONTROLLER)}) == len(USERS) + 1


def test_only_the_owner_reads_what_is_secret(secrets: Secrets, tmp_path: Path) -> None:
    state = secure_state(brokers=2)
    secrets.write_client_files(state.bootstrap_servers, "https://127.0.0.1:1")
    for server in state.servers:
        if server.kind == "controller":
            servers.controller_command(tmp_path, state, server)
        elif server.kind == "zookeeper":
            servers.write_zookeeper_config(tmp_path, state, server)
        else:
            servers.write_kafka_config(tmp_path, state, server)
    passwords = [secrets.password(user) for user in (*USERS, CONTROLLER)]
    telling = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file()
        and ("PRIVATE KEY" in path.read_text() or any(password in path.read_text() for password in passwords))
    ]
    # Keys of the users and the servers, passwords, three files for each user, the brokers' properties, ZooKeeper's logins.
    assert len(telling) == (4 + 2) + 4 + 3 * 3 + 2 + 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in telling} == {0o600}
    assert stat.S_IMODE(secrets.directory.stat().st_mode) == 0o700


def test_keys_belong_to_certificates_that_the_authority_has_signed(secrets: Secrets) -> None:
    for user in (*USERS, CONTROLLER):
        own = {
            "ssl.certificate.location": str(secrets.certificate(user)),
            "ssl.key.location": str(secrets.key(user)),
        }
        context = ssl_context(own | {"ssl.ca.location": str(secrets.ca)})
        assert len(context.get_ca_certs()) == 1
    for server in (BROKER, ZOOKEEPER):
        # Java reads no other form of a key from PEM.
        assert secrets.keystore(server).read_text().startswith("-----BEGIN PRIVATE KEY-----")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(secrets.keystore(server))


def test_a_controllers_configuration_is_one_that_it_takes(secrets: Secrets, tmp_path: Path) -> None:
    state = secure_state()
    server = state.of("controller")[0]
    *command, option, path = servers.controller_command(tmp_path, state, server)
    assert (command[0], option) == (sys.executable, "--config")
    entries = read_file(Path(path), {})
    settings = controller_config(entries, default_host="localhost").settings
    assert settings.url == server.url
    assert settings.kafka == checked(secrets.kafka(state.bootstrap_servers, CONTROLLER))
    assert settings.zookeeper.connect == state.zookeeper
    assert settings.zookeeper.sasl_password == secrets.password(CONTROLLER)
    assert settings.authentication.required
    assert secrets.password(CONTROLLER) not in Path(path).read_text()


def test_users_options_are_those_of_the_format(secrets: Secrets) -> None:
    secrets.write_client_files("127.0.0.1:1", "https://127.0.0.1:2")
    described = secured.description(secrets, secure_state())
    assert all(Path(path).is_file() for path in described["users"]["alice"].values())  # type: ignore[index]
    kafka = {f"kafka.{name}": value for name, value in secrets.kafka("127.0.0.1:1", "alice").items()}
    login = secrets.controller("https://127.0.0.1:2", "alice")
    connection = source_options({"subscribe": "t", **kafka, **login}).connection
    assert connection.credentials.username == "alice"
    assert connection.credentials.password == secrets.password("alice")


def test_what_a_secured_node_is_configured_with_replaces_the_rest(secrets: Secrets, tmp_path: Path) -> None:
    state = secure_state(brokers=2, zookeepers=3)
    broker, kraft = state.of("broker")[0], state.of("kraft")[0]
    properties = servers.kafka_properties(tmp_path, state, broker)
    assert properties["listeners"] == f"SASL_SSL://{broker.address},SSL://127.0.0.1:{broker.mutual_tls_port}"
    assert properties["inter.broker.listener.name"] == "SSL"
    assert "PLAINTEXT" not in properties["listener.security.protocol.map"]
    assert servers.kafka_properties(tmp_path, state, kraft)["listeners"].startswith("CONTROLLER://")
    written = servers.write_zookeeper_config(tmp_path, state, state.of("zookeeper")[0]).read_text()
    assert "sslQuorum=true" in written
    assert "\nclientPort=" not in written
