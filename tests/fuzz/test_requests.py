"""Parts of requests: bodies, filters, credentials. Whole requests: tests/integration/test_fuzzed_requests.py."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.access.authenticator import Authenticator, CredentialsError
from spark_ordered_kafka.controller.access.caller import kafka_address
from spark_ordered_kafka.controller.access.passwords import PasswordProver
from spark_ordered_kafka.controller.api.http.bodies import parsed_json, require_json
from spark_ordered_kafka.controller.api.http.filters import numbers
from spark_ordered_kafka.controller.api.http.filters import texts as several
from spark_ordered_kafka.controller.api.middleware.origins import host_name
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
)
from spark_ordered_kafka.controller.topics.idempotency import check_key
from spark_ordered_kafka.errors import RequestError
from tests.fuzz.hostile import accepted, contents, fuzzed, texts

BODIES: list[Any] = [
    {"topic": "orders", "partitions": 2, "configs": {"retention.ms": "1"}},
    {"topics": [{"topic": "orders", "partition_count": 3}], "validate_only": True},
    {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}],
    },
    {"positions": [{"partition": 0, "offset": 1, "leader_epoch": 0}], "partitions": [0]},
    {"replicas": [{"topic": "orders", "partition": 0, "broker": 1, "log_dir": "/d"}]},
]


@fuzzed
@given(contents(BODIES))
def test_a_body_is_json_or_refused(body: bytes) -> None:
    parsed = accepted(parsed_json, body, errors=RequestError)
    if parsed is not None:
        # As it stands in the audit log.
        assert json.loads(json.dumps(parsed, allow_nan=False)) == parsed


@fuzzed
@given(texts)
def test_parts_of_a_request(text: str) -> None:
    accepted(require_json, text, errors=RequestError)
    accepted(check_key, text, errors=RequestError)
    for parse in (several, numbers):
        accepted(parse, "partitions", [text], errors=RequestError)
    host_name(text)
    kafka_address(text)


# As h11 hands them on: without control characters, in any other bytes.
header_values = st.one_of(texts, st.text(st.characters(max_codepoint=255), max_size=40)).map(
    lambda text: bytes(one for one in text.encode("latin-1", "replace") if one >= 32 and one != 127)[:4000]
)


AUTHORIZATIONS = st.one_of(
    header_values,
    header_values.map(lambda value: b"Basic " + value),
    header_values.map(lambda value: b"Bearer " + value),
    st.binary(max_size=40).map(lambda value: b"Basic " + base64.b64encode(value)),
    st.tuples(texts, texts).map(
        lambda pair: b"basic " + base64.b64encode(":".join(pair).encode("utf-8", "replace")[:3000])
    ),
)


@fuzzed
@given(AUTHORIZATIONS)
def test_credentials_are_accepted_or_refused(header: bytes) -> None:
    proven: list[tuple[str, str]] = []

    def login(username: str, password: str) -> bool:
        proven.append((username, password))
        return True

    authenticator = Authenticator(AuthenticationSettings(required=True), None, {}, 1.0)
    authenticator._passwords = PasswordProver(login)
    try:
        principal = accepted(
            lambda: asyncio.run(authenticator.principal(header.decode("latin-1"), None, "h")),
            errors=CredentialsError,
        )
    finally:
        authenticator.close()
    if principal is not None:
        assert principal.startswith("User:")
        assert principal.isprintable()
        assert proven


@pytest.mark.parametrize("header", ["Basic \xe9", "Basic \xff\xfe", "Basic ====", "Basic /w==", "Basic Og=="])
def test_credentials_that_are_no_base64(header: str) -> None:
    """A caller without credentials cannot fill the log with errors."""
    authenticator = Authenticator(AuthenticationSettings(required=True), None, {}, 1.0)
    authenticator._passwords = PasswordProver(lambda _, __: True)
    try:
        with pytest.raises(CredentialsError):
            asyncio.run(authenticator.principal(header, None, "h"))
    finally:
        authenticator.close()


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1" + "0" * 400 + ".5"])
def test_an_infinite_number_reaches_neither_log_nor_review(number: str) -> None:
    with pytest.raises(RequestError, match="the body is not JSON"):
        parsed_json(b'{"x":%s}' % number.encode())
