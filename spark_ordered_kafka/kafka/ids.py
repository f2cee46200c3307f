"""Transactional ids of ordered writers: what lets the controller list exactly whom a topic's change must fence."""

from __future__ import annotations


def id_prefix(topic: str) -> str:
    """How the transactional ids of a topic's writers begin, and the groups of their ledgers. No topic's name has a colon."""
    return f"ordered:{topic}:"


def transactional_id(topic: str, writer: str, number: int) -> str:
    """The id of one of a writer's producers; the sink numbers them by task."""
    return f"{id_prefix(topic)}{writer}:{number}"
