"""Certificates, passwords and client properties of a secured local cluster, in its directory ``security``.

::

    ca.pem                       the authority that signed all certificates
    broker.pem, zookeeper.pem    key and certificate of the servers, one file each
    certificates/<name>.pem      certificate of a client or controller; its common name is the user's
    certificates/<name>.key      its key
    passwords/<name>             password of a user, alone in the file
    <user>/client.properties     for Kafka's own tools: --command-config
    <user>/librdkafka.properties for librdkafka's clients and, with kafka. before them, Spark options
    <user>/controller.properties for this package's command line: --command-config

Only the owner can read what is secret. Certificates are of the user ``controller`` for the controllers' connections, too.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from spark_ordered_kafka.local.ports import HOST

USERS = ("admin", "alice", "bob")
"""Users for people and programs: ``admin`` may do everything, the others what Kafka's ACLs allow."""

CONTROLLER = "controller"
"""The controllers' own user, in Kafka and in ZooKeeper."""

BROKER = "broker"
ZOOKEEPER = "zookeeper"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISM = "SCRAM-SHA-512"
"""Default mechanism of clients, one of :data:`MECHANISMS`."""

_NAMES = (HOST, "localhost")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Secrets:
    """Where the files are; ``directory`` is the cluster's ``security``."""

    directory: Path

    @property
    def ca(self) -> Path:
        """Certificate of the authority, PEM."""
        return self.directory / "ca.pem"

    def keystore(self, server: str) -> Path:
        """Key and certificate of :data:`BROKER` or :data:`ZOOKEEPER` in one PEM file, as Java takes them."""
        return self.directory / f"{server}.pem"

    def certificate(self, user: str) -> Path:
        """A user's certificate; that of :data:`CONTROLLER` is also the HTTP server's."""
        return self.directory / "certificates" / f"{user}.pem"

    def key(self, user: str) -> Path:
        """The key of :meth:`certificate`, without a password."""
        return self.directory / "certificates" / f"{user}.key"

    def password_file(self, user: str) -> Path:
        """The file that holds a user's password and nothing else."""
        return self.directory / "passwords" / user

    def password(self, user: str) -> str:
        """A user's password, the same in Kafka (all mechanisms) and ZooKeeper."""
        return self.password_file(user).read_text(encoding="ascii")

    def properties_file(self, user: str, name: str) -> Path:
        """``name``.properties of a user: ``client``, ``librdkafka`` or ``controller``."""
        return self.directory / user / f"{name}.properties"

    def create(self, *hosts: str) -> None:
        """Make certificates and passwords if there are none. The directory appears when it is complete.

        ``hosts``: names and addresses of servers beside the local ones.
        """
        if self.directory.exists():
            return
        made = Secrets(self.directory.with_name(f".{self.directory.name}"))
        shutil.rmtree(made.directory, ignore_errors=True)
        for path in (made.directory, made.certificate("x").parent, made.password_file("x").parent):
            path.mkdir(mode=0o700)
        made._issue((*_NAMES, *hosts))
        for user in (*USERS, CONTROLLER):
            write_private(made.password_file(user), secrets.token_urlsafe(18))
        made.directory.rename(self.directory)

    def write_client_files(self, bootstrap_servers: str, controller_url: str) -> None:
        """Write every user's property files; the controllers' addresses may change between two starts."""
        for user in USERS:
            kafka = self.kafka(bootstrap_servers, user)
            self.properties_file(user, "client").parent.mkdir(mode=0o700, exist_ok=True)
            java = {"client": self._java_client(kafka), "controller": self.controller(controller_url, user)}
            files = {name: javaproperties.dumps(found, timestamp=False) for name, found in java.items()}
            # Its clients know no escapes.
            files["librdkafka"] = "".join(f"{key}={value}\n" for key, value in kafka.items())
            for name, text in files.items():
                write_private(self.properties_file(user, name), text)

    def kafka(self, bootstrap_servers: str, user: str, mechanism: str = MECHANISM) -> dict[str, str]:
        """librdkafka's properties with which a user connects to the brokers by SASL."""
        return {
            "bootstrap.servers": bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.password(user),
            "ssl.ca.location": str(self.ca),
        }

    def controller(self, url: str, user: str) -> dict[str, str]:
        """Options with which a user's clients connect to the controllers."""
        return {
            "controller.url": url,
            "controller.username": user,
            "controller.password": self.password(user),
            "controller.ssl.ca.location": str(self.ca),
        }

    def _java_client(self, kafka: Mapping[str, str]) -> dict[str, str]:
        module = _MODULES[kafka["sasl.mechanism"]]
        login = f'{module} required username="{kafka["sasl.username"]}" password="{kafka["sasl.password"]}";'
        return {
            "bootstrap.servers": kafka["bootstrap.servers"],
            "security.protocol": kafka["security.protocol"],
            "sasl.mechanism": kafka["sasl.mechanism"],
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def _issue(self, hosts: Sequence[str]) -> None:
        # Half a second to import, which only the first start of a secured cluster needs.
        import trustme

        authority = trustme.CA(organization_name="ordered-kafka local")
        authority.cert_pem.write_to_path(self.ca)
        for server in (BROKER, ZOOKEEPER):
            issued = authority.issue_cert(*hosts, common_name=server)
            chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
            write_private(self.keystore(server), (_pkcs8(issued.private_key_pem.bytes()) + chain).decode())
        for user in (*USERS, CONTROLLER):
            names = hosts if user == CONTROLLER else (f"{user}@localhost",)
            issued = authority.issue_cert(*names, common_name=user)
            issued.cert_chain_pems[0].write_to_path(self.certificate(user))
            write_private(self.key(user), _pkcs8(issued.private_key_pem.bytes()).decode())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step."""
    scratch = path.with_name(f".{path.name}")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600, exist_ok=False)
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def _pkcs8(key: bytes) -> bytes:
    """A key as Java reads it from PEM: trustme writes OpenSSL's older form."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    return load_pem_private_key(key, password=None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
