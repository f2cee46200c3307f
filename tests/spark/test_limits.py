"""What a micro-batch takes, and when it is held back; the clock is moved by hand."""

from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_ordered_kafka.spark.limits import Admission
from spark_ordered_kafka.spark.options import Limits


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(admission: Admission, readable: int, available: int | None = None, *, at_once: bool = False) -> int:
    """How many of the readable offsets are admitted."""
    total = readable if available is None else available
    return (
        admission.admit({("t", 0): (5, 5 + readable)}, total, admission.default(), at_once=at_once)["t", 0]
        - 5
    )


def test_the_default_limit_is_the_maximum() -> None:
    assert Admission(Limits(), Clock()).default() == ReadAllAvailable()
    assert Admission(Limits(max_offsets=3, min_offsets=2), Clock()).default() == ReadMaxRows(3)


def test_too_few_offsets_wait_for_the_delay_since_the_last_batch() -> None:
    clock = Clock()
    admission = Admission(Limits(min_offsets=10, max_delay=60.0), clock)
    assert taken(admission, 3) == 3, "the first batch of a run is not held back"
    assert taken(admission, 9) == 0
    clock.now += 59.0
    assert taken(admission, 9) == 0
    assert taken(admission, 10) == 10, "enough"
    clock.now += 59.0
    assert taken(admission, 9) == 0, "the delay counts from the last batch"
    clock.now += 1.0
    assert taken(admission, 9) == 9


def test_no_data_is_no_batch() -> None:
    clock = Clock()
    admission = Admission(Limits(min_offsets=10, max_delay=60.0), clock)
    assert taken(admission, 0) == 0
    assert taken(admission, 1) == 1
    clock.now += 60.0
    assert taken(admission, 0) == 0
    clock.now += 1.0
    assert taken(admission, 1) == 1


def test_what_the_gate_holds_back_counts() -> None:
    admission = Admission(Limits(min_offsets=10), Clock())
    taken(admission, 1)
    assert taken(admission, 3, available=9) == 0
    assert taken(admission, 3, available=500) == 3


def test_a_minimum_and_a_maximum() -> None:
    admission = Admission(Limits(min_offsets=10, max_offsets=20), Clock())
    assert taken(admission, 100) == 20
    assert taken(admission, 9) == 0
    assert taken(admission, 100) == 20


def test_a_run_to_a_fixed_end_is_not_held_back() -> None:
    admission = Admission(Limits(min_offsets=10, max_offsets=20), Clock())
    assert [taken(admission, 3, at_once=True) for _ in range(2)] == [3, 3]
