"""Transactional ids of ordered writers: by them the controller finds the producers that a change must fence."""

from __future__ import annotations

import re
from typing import NamedTuple

from spark_ordered_kafka.parsing import is_topic_name

LEDGERS = "ordered:"
"""How the transactional ids of all topics' writers begin, and the groups of their ledgers."""


# As Python writes a number: anybody may make groups with other names.
_TASK = re.compile("0|[1-9][0-9]{0,9}")


def id_prefix(topic: str) -> str:
    """How the transactional ids of a topic's writers begin, and the groups of their ledgers. No topic's name has a colon."""
    return f"{LEDGERS}{topic}:"


def transactional_id(topic: str, writer: str, number: int) -> str:
    """The id of one of a writer's producers; the sink numbers them by task."""
    return f"{id_prefix(topic)}{writer}:{number}"


class WriterTask(NamedTuple):
    """A task of a writer at a topic: the owner of a transactional id and of a ledger."""

    topic: str
    writer: str
    task: int

    @property
    def name(self) -> str:
        """The transactional id, and the ledger's consumer group."""
        return transactional_id(*self)

    @classmethod
    def of(cls, name: str) -> WriterTask | None:
        """The task that has this name; None: of no ordered writer."""
        match name.split(":"):
            case ["ordered", topic, writer, task] if (
                writer and is_topic_name(topic) and _TASK.fullmatch(task)
            ):
                return cls(topic, writer, int(task))
        return None
