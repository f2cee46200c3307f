"""Names of one-off writers: handed out to one at a time, and again once they were given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.topics.writer_names import MAX_NAMES, WriterNames

TOPICS = ("a", "b", None)


@given(st.lists(st.tuples(st.sampled_from(["take", "release", "again", "wrong"]), st.integers(0, 99))))
def test_a_name_is_one_writers_at_a_time_and_new_only_if_none_is_free(steps: list[tuple[str, int]]) -> None:
    names = WriterNames("u")
    held: dict[tuple[str | None, str], str] = {}
    ended: list[tuple[str | None, str, str]] = []
    most = dict.fromkeys(TOPICS, 0)
    for what, number in steps:
        topic = TOPICS[number % 3]
        if what == "take":
            name, nonce = names.take(topic)
            assert (topic, name) not in held
            held[(topic, name)] = nonce
            most[topic] = max(most[topic], sum(one == topic for one, _ in held))
        elif what == "release" and held:
            (topic, name), nonce = list(held.items())[number % len(held)]
            del held[(topic, name)]
            names.release(topic, name, nonce)
            ended.append((topic, name, nonce))
        elif what == "again" and ended:
            # A release that is repeated must not free a name that somebody else has by then.
            names.release(*ended[number % len(ended)])
        elif what == "wrong" and held:
            (topic, name), nonce = list(held.items())[number % len(held)]
            names.release(topic, name, f"{nonce}ü")
            names.release("c", name, nonce)
    for topic in TOPICS:
        own = {name for one, name, _ in ended if one == topic} | {name for one, name in held if one == topic}
        assert len(own) == most[topic]


@pytest.mark.parametrize("lent_at_once", [True, False])
def test_what_is_remembered_is_bounded(lent_at_once: bool) -> None:
    """Of the lent names and of the free ones the newest are kept."""
    names, leases = WriterNames("u"), []
    for number in range(2 * MAX_NAMES):
        topic = f"t{number}"
        leases.append((topic, *names.take(topic)))
        if not lent_at_once:
            names.release(*leases[-1])
    if lent_at_once:
        for lease in leases:
            names.release(*lease)
    kept = [names.take(topic)[0] == name for topic, name, _ in leases]
    assert kept == [False] * MAX_NAMES + [True] * MAX_NAMES
