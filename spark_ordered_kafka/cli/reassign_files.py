"""Kafka's JSON of a reassignment (``--reassignment-json-file``), and that of replicas and their log directories
(``--replica-log-dirs-json-file``)."""

from __future__ import annotations

from typing import Any, BinaryIO, Literal

from spark_ordered_kafka.cli.json_files import read_json
from spark_ordered_kafka.cli.reassign_options import REASSIGNMENT_JSON_FILE
from spark_ordered_kafka.client.schemas import PartitionReassignment, ReplicaLogDir
from spark_ordered_kafka.client.schemas.base import Many, Request


class _Reassignment(Request):
    version: Literal[1] = 1
    partitions: list[PartitionReassignment]
    # Additional members of `reassign plan`.
    current: Any = None
    bytes_to_move: Any = None
    replicas_to_move: Any = None
    leaders_to_move: Any = None
    brokers: Any = None
    warnings: Any = None


def read_partitions(file: BinaryIO) -> list[PartitionReassignment]:
    """The partitions of a file in Kafka's JSON, in its order; also accepts the output of ``reassign plan --output json``.

    The controller checks that the partitions, brokers and directories exist. Raises ConfigError as :func:`read_json` does.
    """
    return read_json(_Reassignment, file, REASSIGNMENT_JSON_FILE).partitions


class _Replicas(Request):
    """Other than the API's request without what options say: in the file it would not be heeded."""

    replicas: Many[ReplicaLogDir]


def read_replicas(file: BinaryIO, option: str) -> list[ReplicaLogDir]:
    """The replicas of the file that ``option`` names, in its order. Raises ConfigError as :func:`read_json` does."""
    return read_json(_Replicas, file, option).replicas
