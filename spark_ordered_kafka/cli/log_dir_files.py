"""JSON of replicas and their log directories (``--replica-log-dirs-json-file``)."""

from __future__ import annotations

from typing import BinaryIO

from spark_ordered_kafka.cli.json_files import read_json
from spark_ordered_kafka.client.schemas import ReplicaLogDir
from spark_ordered_kafka.client.schemas.base import Many, Request


class _Replicas(Request):
    """Other than the API's request without what options say: in the file it would not be heeded."""

    replicas: Many[ReplicaLogDir]


def read_replicas(file: BinaryIO, option: str) -> list[ReplicaLogDir]:
    """The replicas of the file that ``option`` names, in its order. Raises ConfigError as :func:`read_json` does."""
    return read_json(_Replicas, file, option).replicas
