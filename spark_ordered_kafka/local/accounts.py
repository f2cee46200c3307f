"""The users of a secured local cluster in Kafka's metadata."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError  # another class before Python 3.11

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.readiness import QUIET
from spark_ordered_kafka.local.secrets import CONTROLLER, USERS, Secrets

# Clients use the last one, so a broker that accepts it accepts all.
_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
_ITERATIONS = 4096  # Kafka's minimum: the passwords are random


def create_users(secrets: Secrets, bootstrap_servers: str, *, timeout: float) -> None:
    """Give every user SCRAM credentials with the password of ``secrets``; those that exist are replaced.

    Not at formatting: Kafka's storage tool takes passwords on its command line (D-203).

    Args:
        secrets: has the passwords.
        bootstrap_servers: running brokers, where the super user can log in by PLAIN.
        timeout: seconds.

    Raises:
        LocalClusterError: the brokers refuse, or do not answer in time.
    """
    admin = AdminClient({**secrets.kafka(bootstrap_servers, USERS[0], "PLAIN")}, logger=QUIET)
    try:
        for mechanism in _MECHANISMS:
            credential = ScramCredentialInfo(mechanism, _ITERATIONS)
            wanted: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, credential, secrets.password(user).encode())
                for user in (*USERS, CONTROLLER)
            ]
            # Kafka takes a user once in a request.
            for future in admin.alter_user_scram_credentials(wanted, request_timeout=timeout).values():
                future.result(timeout)
    except (KafkaException, FutureTimeoutError) as error:
        raise LocalClusterError(f"the users of the cluster could not be made: {error}") from error
