"""What waits to be served by ``poll()``, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.client.reports import Outbox

# More than Python nests calls; an outbox keeps as many.
EVENTS = 1000


def test_a_callback_of_an_event_may_serve_the_others() -> None:
    outbox, heard = Outbox(), []

    def hear(said: Any) -> None:
        heard.append(said)
        outbox.serve()

    event = outbox.events(hear)
    for number in range(EVENTS):
        event(number)
    assert outbox.serve() == EVENTS
    assert heard == list(range(EVENTS))
    assert len(outbox) == 0


def test_what_a_callback_raises_leaves_the_rest_in_its_order() -> None:
    outbox, heard = Outbox(), []

    def hear(said: Any) -> None:
        heard.append(said)
        if said == 1:
            outbox.events(hear)("meanwhile")
            raise ValueError(said)

    for number in range(4):
        outbox.events(hear)(number)
    with pytest.raises(ValueError, match="1"):
        outbox.serve()
    assert outbox.serve() == 3
    assert heard == [0, 1, 2, 3, "meanwhile"]


def test_at_the_end_all_are_called_and_the_first_error_is_raised() -> None:
    outbox, heard = Outbox(), []

    def hear(said: Any) -> None:
        heard.append(said)
        if said in (1, 3):
            raise ValueError(said)

    for number in range(5):
        outbox.events(hear)(number)
    with pytest.raises(ValueError, match="1"):
        outbox.serve_all()
    assert heard == [0, 1, 2, 3, 4]
    outbox.serve_all()
