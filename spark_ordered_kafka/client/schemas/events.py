"""Data of the events of ``GET /v1/events``, besides what requests answer."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import Answer
from spark_ordered_kafka.client.schemas.reassignments import ReassignmentSummary
from spark_ordered_kafka.client.schemas.topics import TopicSummary


class TopicsEvent(Answer):
    """``event: topics``: the topics that are new or were changed since the last such event, and those that are gone."""

    topics: list[TopicSummary]
    removed: list[str]


class ReassignmentsEvent(Answer):
    """``event: reassignments``: all stored requests, newest first."""

    requests: list[ReassignmentSummary]
