"""Settings of the connection to ZooKeeper that are refused before anything is connected, and ACLs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kazoo.security import make_acl, make_digest_acl

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.connection import client_of
from spark_ordered_kafka.controller.zk.protection import acls
from spark_ordered_kafka.errors import ConfigError

PLAIN = ZooKeeperSettings("h:2181/chroot", session_timeout=4.0)
SASL = replace(PLAIN, sasl_username="u", sasl_password="hush")
DIGEST = replace(PLAIN, digest_username="u", digest_password="hush")
KEY = replace(
    PLAIN, ssl_enabled=True, ssl_certificate_location="c", ssl_key_location="k", ssl_key_password="hush"
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl_username": "u"}, "zookeeper.sasl.password is missing: zookeeper.sasl.username needs it"),
        ({"digest_password": "hush"}, "zookeeper.digest.username is missing"),
        ({"ssl_ca_location": "x"}, "zookeeper.ssl.enabled has the value False: with zookeeper.ssl.ca"),
        (
            {"ssl_enabled": True, "ssl_key_location": "k"},
            "zookeeper.ssl.certificate.location is missing: zookeeper.ssl.key.location needs it",
        ),
        (
            {"ssl_enabled": True, "ssl_ca_location": "/nowhere"},
            "zookeeper.ssl.ca.location has the value '/nowhere': the file cannot be read",
        ),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as refused:
        client_of(replace(PLAIN, **given))
    assert "hush" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(SASL) + repr(DIGEST) + repr(KEY)


def test_every_new_znode_gets_the_users_acl() -> None:
    assert acls(PLAIN) == []
    assert client_of(PLAIN).default_acl is None
    assert client_of(SASL).default_acl == acls(SASL) == [make_acl("sasl", "u", all=True)]
    assert client_of(DIGEST).default_acl == acls(DIGEST) == [make_digest_acl("u", "hush", all=True)]
    assert client_of(DIGEST).auth_data == {("digest", "u:hush")}
