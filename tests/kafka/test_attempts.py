"""Steps that may fail and start over."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from spark_ordered_kafka.kafka.attempts import failure_of, interrupt_of


def errors_behind(error: BaseException) -> Iterator[BaseException]:
    """The error, and every one that it was raised from or during."""
    yield error
    for before in (error.__cause__, error.__context__):
        if before is not None:
            yield from errors_behind(before)


def test_a_failure_leads_to_no_frame_by_its_causes_nor_by_its_contexts() -> None:
    def step() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            fatal = error
        try:
            try:
                raise ValueError("second")
            except ValueError as error:
                raise SystemError("third") from error
        except SystemError:
            raise LookupError("last") from fatal

    failure = failure_of(step)
    assert failure is not None
    behind = list(errors_behind(failure))
    assert {type(error) for error in behind} == {LookupError, KeyError, SystemError, ValueError}
    assert [error for error in behind if traceback.extract_tb(error.__traceback__)] == []


def test_a_step_that_succeeds_has_no_failure() -> None:
    assert failure_of(lambda: None) is None


def test_only_what_confluent_kafka_makes_of_ctrl_c_is_taken_for_it() -> None:
    lost = SystemError(
        "<built-in method poll of cimpl.Consumer object at 0x7f> returned NULL without setting an exception"
    )
    kept = SystemError(
        "<built-in method describe_cluster of AdminClient object at 0x7f> returned a result with an exception set"
    )
    kept.__cause__ = KeyboardInterrupt()
    assert [type(interrupt_of(error)) for error in (lost, kept)] == [KeyboardInterrupt] * 2
    other = SystemError(str(kept))
    other.__cause__ = MemoryError()
    for error in (other, ValueError("without setting an exception"), KeyboardInterrupt()):
        assert interrupt_of(error) is error
