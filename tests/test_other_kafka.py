"""The choice of another Kafka for tests from end to end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import ConfigError
from tests.other_kafka import DIFFERENT, choose

TESTS = Path(__file__).parent


def names_there() -> set[str]:
    """The names of the tests from end to end."""
    return {
        name
        for path in (TESTS / "integration").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_what_is_left_out_is_there() -> None:
    assert all(tests.keys() <= names_there() for tests in DIFFERENT.values())


def test_nothing_is_left_out_on_the_newest_kafka() -> None:
    reasons = [DIFFERENT.get(kafka, {}) for kafka in ("", "4.3.1")]
    assert {of_kafka.get(test) for of_kafka in reasons for test in DIFFERENT["3.9.2"]} == {None}


@pytest.mark.parametrize("kafka", ["4.3", "4.3.1-zookeeper", "3.9.2-kraft"])
def test_there_is_no_other_kafka(kafka: str) -> None:
    with pytest.raises(ConfigError, match=f"TEST_KAFKA has the value '{kafka}'"):
        choose(kafka)
