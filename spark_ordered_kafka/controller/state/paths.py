"""Paths of the znodes of topics (docs/architecture.md, "What is in ZooKeeper")."""

from __future__ import annotations

from spark_ordered_kafka.controller.zk.session import ROOT

TOPICS = f"{ROOT}/topics"
CREATIONS = f"{ROOT}/admin/create_topics"
DELETIONS = f"{ROOT}/admin/delete_topics"
RELEASES = f"{ROOT}/admin/release_topics"
FIXED_PATHS = (TOPICS, CREATIONS, DELETIONS, RELEASES)
"""Made at the start of every controller."""


def topic_path(topic: str) -> str:
    """Path of a topic's record."""
    return f"{TOPICS}/{topic}"


def layout_path(topic: str, epoch: int) -> str:
    """Path of a committed layout."""
    return f"{TOPICS}/{topic}/layouts/{epoch}"


def partition_path(topic: str, partition: int) -> str:
    """Path of a removed partition's status."""
    return f"{TOPICS}/{topic}/partitions/{partition}"
