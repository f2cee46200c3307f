"""The choice of other settings of brokers for tests from end to end."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.errors import ConfigError
from tests.other_brokers import DIFFERENT, PROPERTIES, choose
from tests.test_other_kafka import names_there


def test_what_is_left_out_is_there() -> None:
    assert DIFFERENT.keys() <= PROPERTIES.keys()
    assert all(tests.keys() <= names_there() for tests in DIFFERENT.values())


def test_there_are_no_other_settings() -> None:
    with pytest.raises(
        ConfigError, match=r"TEST_BROKERS has the value 'slow'.*defaults, expiring, logs, far, ipv6"
    ):
        choose("slow")
