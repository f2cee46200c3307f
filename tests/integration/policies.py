"""Topic policies that tests name in ``topic.policy.class``."""

from __future__ import annotations

from spark_ordered_kafka import PolicyViolationError
from spark_ordered_kafka.controller.policy import TopicRequest

ASKED: list[TopicRequest] = []
"""What the policies of this process were asked, in order."""


class Recorder:
    """Refuses what concerns topics with ``veto`` in their names, and fails on those with ``bug``."""

    def validate(self, request: TopicRequest) -> None:
        ASKED.append(request)
        if "veto" in request.topic:
            raise PolicyViolationError("not while I am on duty")
        if "silent" in request.topic:
            raise PolicyViolationError
        if "bug" in request.topic:
            raise ZeroDivisionError("in the policy")


class NeedsArguments:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def validate(self, request: TopicRequest) -> None:
        raise AssertionError(request)


class NoValidate:
    pass


def function(request: TopicRequest) -> None:
    raise AssertionError(request)
