"""One root, and errors survive the way between Spark's processes."""

import inspect
import pickle

import pytest

from spark_ordered_kafka import errors
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError


@pytest.mark.parametrize(
    "error",
    [
        errors.ConfigError("option x", "1", "use 2"),
        errors.RequestError(ErrorCode.GUARD_RAILS, "full"),
        errors.LayoutChangingError("t", 0.5),
        errors.UnavailableError("away"),
    ],
)
def test_pickling_keeps_everything(error: OrderedKafkaError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code, again.retriable) == (
        type(error),
        str(error),
        error.code,
        error.retriable,
    )


def test_all_errors_have_one_root() -> None:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert len(found) > 5
    assert all(issubclass(kind, OrderedKafkaError) for kind in found)


def test_retriable_and_fatal_are_told_apart() -> None:
    assert errors.UnavailableError("x").retriable
    assert errors.FencedError("x").retriable
    assert not errors.MisroutedRecordError("x").retriable
    assert not errors.RequestError(ErrorCode.INVALID_PARTITIONS, "x").retriable
