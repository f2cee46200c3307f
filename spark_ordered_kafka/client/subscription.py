"""What an ordered consumer is subscribed to: names of topics, and patterns of names that are looked up from time to time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import ConfigError, ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.parsing import compiled, raise_all, topic_name

_LOG = logging.getLogger(__name__)
_EXPECTED = "a list of topic names and patterns, such as ['orders', '^payments-.*']"


class Subscription:
    """The topics of a consumer.

    Args:
        directory: knows the topics under management.
        interval: seconds between two looks for topics that match a pattern.
        clock: seconds, monotonic.

    Attributes:
        topics: the names, those that match a pattern included. The list stays the same object.
    """

    def __init__(self, directory: TopicDirectory, interval: float, clock: Callable[[], float]) -> None:
        self.topics: list[str] = []
        self._directory = directory
        self._interval = interval
        self._clock = clock
        self._names: list[str] = []
        self._patterns: list[re.Pattern[str]] = []
        self._look_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._names or self._patterns)

    def set(self, topics: Any) -> None:
        """Take other topics in place of those before.

        Raises ConfigError for what is no topic name and no pattern, RequestError for a topic that is not under
        management, UnavailableError when no controller answers; then the subscription stays as it was.
        """
        names, patterns = _parsed(topics)
        with self._directory.client.through_take_overs():
            self._directory.refresh_all(names)
        found = names
        if patterns:
            with self._directory.controller.through_take_overs():
                found = self._found(names, patterns)
        self._names, self._patterns = names, patterns
        self.topics[:] = found
        self._look_at = self._clock() + self._interval

    def clear(self) -> None:
        """Be subscribed to nothing."""
        self._names, self._patterns = [], []
        self.topics.clear()

    def changed(self) -> list[str] | None:
        """The topics, if other ones match the patterns than at the last look.

        None also while it is not time for a look, or no controller answers: then the next look finds them.
        """
        if not self._patterns or self._clock() < self._look_at:
            return None
        self._look_at = self._clock() + self._interval
        try:
            found = self._found(self._names, self._patterns)
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            _LOG.warning("topics that match the subscription are looked up later: %s", str(error))
            return None
        return None if found == self.topics else found

    def has_lost(self, error: RequestError) -> bool:
        """Whether topics that matched a pattern are gone by now, as ``error`` says of one: :meth:`changed` has the others.

        Raises UnavailableError when no controller answers.
        """
        if not self._patterns or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        self._look_at = self._clock()
        return not set(self.topics) <= set(self._found(self._names, self._patterns))

    def _found(self, names: list[str], patterns: list[re.Pattern[str]]) -> list[str]:
        listed = (summary.topic for summary in self._directory.controller.topics().topics)
        matching = sorted(topic for topic in listed if any(pattern.match(topic) for pattern in patterns))
        return list(dict.fromkeys([*names, *matching]))


def _parsed(topics: Any) -> tuple[list[str], list[re.Pattern[str]]]:
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ConfigError("topics", topics, _EXPECTED)
    given = list(topics)
    if not given or not all(isinstance(name, str) for name in given):
        raise ConfigError("topics", topics, _EXPECTED)
    names: list[str] = []
    patterns: list[re.Pattern[str]] = []
    errors: list[ConfigError] = []
    for name in dict.fromkeys(given):
        try:
            # As in librdkafka: a caret makes a pattern, which need not match to a name's end.
            if name.startswith("^"):
                patterns.append(compiled("topics", name))
            else:
                names.append(topic_name("topics", name))
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    return names, patterns
