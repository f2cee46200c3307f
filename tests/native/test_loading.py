"""Whether the kernel is used: what the environment says, and what is said where it does not load."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import confluent_kafka
import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.native import loading
from spark_ordered_kafka.native.loading import VARIABLE, kernel


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    kernel.cache_clear()
    yield
    kernel.cache_clear()


@pytest.fixture(params=["built with no compiler", "another version"])
def lacking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel does not load; why."""
    if request.param == "another version":
        monkeypatch.setattr(confluent_kafka, "version", lambda: "3.0.0")
        return "not of 3.0.0"

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(loading, "import_module", missing)
    return "No module named"


@pytest.mark.parametrize("mode", ["auto", "require"])
def test_the_kernel_is_there(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv(VARIABLE, mode)
    assert kernel().bind(confluent_kafka.cimpl.__file__) == confluent_kafka.libversion()[1]


def test_off_asks_for_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacking: str
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert kernel() is None
    assert not caplog.records


def test_by_default_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacking: str
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with caplog.at_level(logging.WARNING):
        assert [kernel(), kernel()] == [None, None]
    (told,) = [record.getMessage() for record in caplog.records]
    assert lacking in told
    assert "a third of its rate" in told
    assert f"{VARIABLE}=off" in told


def test_where_it_is_required_its_absence_is_an_error(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    monkeypatch.setenv(VARIABLE, "require")
    with pytest.raises(ConfigError, match=lacking):
        kernel()


@pytest.mark.parametrize("value", ["", "on", "OFF", "1"])
def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ConfigError, match=f"{VARIABLE} has the value .*auto, require, off"):
        kernel()
