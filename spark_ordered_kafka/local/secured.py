"""Configuration of the servers of a secured local cluster, in addition to that of an unsecured one.

Kafka: clients log in by SASL over TLS; brokers and the KRaft controller use mutual TLS, which needs no user in the
metadata (D-203). ZooKeeper: mutual TLS, and SASL for the owner of the znodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from spark_ordered_kafka.local.ports import HOST
from spark_ordered_kafka.local.secrets import (
    BROKER,
    CONTROLLER,
    MECHANISM,
    MECHANISMS,
    USERS,
    ZOOKEEPER,
    Secrets,
    write_private,
)
from spark_ordered_kafka.local.state import ClusterState, Server

SUPER_USER = USERS[0]


def kafka_properties(secrets: Secrets, node: Server) -> dict[str, str]:
    """Properties of a Kafka node that replace those of an unsecured one."""
    listeners = [f"CONTROLLER://{HOST}:{port}" for port in node.internal_ports]
    if node.kind == "broker":
        listeners = [f"SASL_SSL://{node.address}", f"SSL://{HOST}:{node.mutual_tls_port}", *listeners]
    properties = {
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL",
        "listener.name.controller.ssl.client.auth": "required",
        **_store("ssl.keystore", secrets.keystore(BROKER)),
        **_store("ssl.truststore", secrets.ca),
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in (BROKER, CONTROLLER, SUPER_USER)),
    }
    if node.kind == "broker":
        users = " ".join(f'user_{user}="{secrets.password(user)}"' for user in (*USERS, CONTROLLER))
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        prefix = "listener.name.sasl_ssl"
        properties |= {
            "inter.broker.listener.name": "SSL",
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": plain,
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        }
    return properties


def zookeeper_properties(secrets: Secrets, state: ClusterState, server: Server) -> dict[str, str]:
    """Additional properties of a ZooKeeper server, without a client port."""
    properties = {
        "secureClientPort": str(server.port),
        "secureClientPortAddress": HOST,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "ssl.clientAuth": "need",
        **_store("ssl.keyStore", secrets.keystore(ZOOKEEPER)),
        **_store("ssl.trustStore", secrets.ca),
    }
    if len(state.of("zookeeper")) > 1:
        properties |= {
            "sslQuorum": "true",
            **_store("ssl.quorum.keyStore", secrets.keystore(ZOOKEEPER)),
            **_store("ssl.quorum.trustStore", secrets.ca),
        }
    return properties


def write_zookeeper_login(secrets: Secrets, home: Path) -> Path:
    """Write a ZooKeeper server's JAAS file into its directory; returns its path."""
    path = home / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    user = f'user_{CONTROLLER}="{secrets.password(CONTROLLER)}"'
    write_private(path, f"Server {{\n  {module} required {user};\n}};\n")
    return path


def write_controller_config(secrets: Secrets, state: ClusterState, server: Server, home: Path) -> Path:
    """Write a controller's ``controller.toml`` into its directory; returns its path."""
    certificate, key, ca = (
        str(path) for path in (secrets.certificate(CONTROLLER), secrets.key(CONTROLLER), secrets.ca)
    )
    password = f"${{file:{secrets.password_file(CONTROLLER)}}}"
    entries: dict[str, str | int | bool | list[str]] = {
        "host": HOST,
        "port": server.port,
        "kafka.bootstrap.servers": state.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": MECHANISM,
        "kafka.sasl.username": CONTROLLER,
        "kafka.sasl.password": password,
        "kafka.ssl.ca.location": ca,
        "zookeeper.connect": state.zookeeper,
        "zookeeper.ssl.enabled": True,
        "zookeeper.ssl.ca.location": ca,
        "zookeeper.ssl.certificate.location": certificate,
        "zookeeper.ssl.key.location": key,
        "zookeeper.sasl.username": CONTROLLER,
        "zookeeper.sasl.password": password,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
        "ssl.ca.location": ca,
        "ssl.client.auth": "requested",
        "authentication.required": True,
        "authentication.kafka.mechanism": MECHANISM,
        "authorization.super.users": [f"User:{SUPER_USER}"],
    }
    home.mkdir(parents=True, exist_ok=True)
    path = home / "controller.toml"
    # TOML's basic strings, numbers, booleans and arrays of them are written like JSON's.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entries.items()]
    write_private(path, "".join(lines))
    return path


def description(secrets: Secrets, state: ClusterState) -> Mapping[str, object]:
    """Paths of a user's files, as plain data; no secrets."""
    return {
        "directory": str(secrets.directory),
        "ssl_ca_location": str(secrets.ca),
        "mutual_tls_bootstrap_servers": mutual_tls_servers(state),
        "users": {
            user: {
                "password_file": str(secrets.password_file(user)),
                "ssl_certificate_location": str(secrets.certificate(user)),
                "ssl_key_location": str(secrets.key(user)),
                **{
                    f"{name}_properties": str(secrets.properties_file(user, name))
                    for name in ("client", "librdkafka", "controller")
                },
            }
            for user in USERS
        },
    }


def mutual_tls_servers(state: ClusterState) -> str:
    """Kafka's ``bootstrap.servers`` for clients that show a certificate instead of a password."""
    return ",".join(f"{HOST}:{broker.mutual_tls_port}" for broker in state.of("broker"))


def _store(prefix: str, path: Path) -> dict[str, str]:
    return {f"{prefix}.type": "PEM", f"{prefix}.location": str(path)}
