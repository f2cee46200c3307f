"""Paths of the controller's HTTP API."""

from __future__ import annotations

from urllib.parse import quote

from spark_ordered_kafka.errors import ConfigError


def topic_path(topic: str, *rest: str) -> str:
    """The path of a topic, or of something of it. Raises ConfigError for a name that no URL can have."""
    return "/".join(["/v1/topics", segment(topic), *rest])


def segment(name: str) -> str:
    """A name as part of a path. Raises ConfigError for one that no URL can have."""
    try:
        # Dots too: a name of one or two would be taken for a step in the path.
        return quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise ConfigError("the name", name, f"it must be text ({error.reason})") from error
