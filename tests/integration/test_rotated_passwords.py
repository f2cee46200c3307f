"""A login that brokers refuse for a while, as when a password is changed, ends nothing for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true, unique_name

pytestmark = pytest.mark.long


def test_a_client_logs_in_again_once_its_password_is_right_again(tmp_path: Path) -> None:
    user = unique_name("rotated")
    with LocalCluster(tmp_path, controllers=0, secure=True) as cluster:
        super_user = AdminClient({**cluster.kafka_properties(), "log_level": 3})

        def set_password(password: str) -> None:
            credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            change = UserScramCredentialUpsertion(user, credential, password.encode())
            for future in super_user.alter_user_scram_credentials([change]).values():
                future.result(TIMEOUT)

        def restart() -> None:
            cluster.stop("broker-1")
            cluster.start("broker-1")

        def is_in() -> bool:
            try:
                return len(admin.brokers()) == 1
            except RequestError as error:
                if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                    raise
                return False

        set_password("first")
        own = {"sasl.username": user, "sasl.password": "first"}
        admin = KafkaAdmin({**cluster.kafka_properties(), **own}, timeout=TIMEOUT)
        try:
            assert is_in()
            set_password("second")
            # Connections that are there stay: a password is looked at when one is made.
            restart()
            with pytest.raises(RequestError, match="SASL_AUTHENTICATION_FAILED"):
                admin.brokers()
            set_password("first")
            await_true(is_in, "the client is in again")
        finally:
            admin.close()
