"""How a partition change is followed to its end."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.cli.change_progress import follow_change, shown
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ChangeView, FinishedChangeView, TopicChange
from spark_ordered_kafka.errors import RequestError, UnavailableError

COUNTS: dict[str, Any] = {"kind": "expand", "source": 2, "target": 4, "started_at": 0.0}


def going(step: str, change_id: str = "c1", **fields: Any) -> TopicChange:
    change = ChangeView.model_validate({**COUNTS, "id": change_id, "step": step, **fields})
    return TopicChange(topic="t", change=change, last_change=None)


def ended(change_id: str = "c1") -> TopicChange:
    last = {**COUNTS, "id": change_id, "outcome": "done", "finished_at": 1.0}
    return TopicChange(topic="t", change=None, last_change=FinishedChangeView.model_validate(last))


class Scripted(ControllerClient):
    """Answers about a topic's change, one after the other; None: no controller."""

    def __init__(self, *answers: TopicChange | None) -> None:
        super().__init__("http://nobody")
        self.left = list(answers)

    def change(self, topic: str) -> TopicChange:
        answer = self.left.pop(0)
        if answer is None:
            raise UnavailableError("no controller answers")
        return answer


def test_a_change_is_followed_through_a_controller_that_is_away() -> None:
    client = Scripted(going("planned"), None, going("fencing", fenced=1, total_fences=4), ended())
    answer, last = follow_change(client, "t", "c1")
    assert (client.left, answer.change, last.outcome) == ([], None, "done")


@pytest.mark.parametrize("answer", [going("planned", "c2"), ended("c2")])
def test_a_change_after_which_another_came_has_no_outcome(answer: TopicChange) -> None:
    with pytest.raises(RequestError, match="change c1 of topic 't' ended and another came after it"):
        follow_change(Scripted(answer), "t", "c1")


def test_what_a_change_changes() -> None:
    changes = [going("planned", kind=kind).change for kind in ("expand", "order", "unorder")]
    assert [change and shown(change) for change in changes] == [
        "2 -> 4",
        "ordered delivery on",
        "ordered delivery off",
    ]
