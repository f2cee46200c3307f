"""Names of one-off writers: batch writes, and OrderedProducer."""

from __future__ import annotations

import logging
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_ordered_kafka.errors import OrderedKafkaError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient

_LOG = logging.getLogger(__name__)
_ONE_OFF = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class LeasedName:
    """A writer's name, and what gives it back; ``nonce`` None: the writer made it up.

    ``ledger`` names the writer's ledgers, and is never used again: an earlier holder of the name has committed, too (D-075).
    """

    topic: str | None
    writer: str
    nonce: str | None
    ledger: str


def is_one_off(ledger: str) -> bool:
    """Whether the ledger's name is like those of one-off writes; a query's own id has hyphens."""
    return _ONE_OFF.fullmatch(ledger) is not None


def lease_name(controller: ControllerClient, topic: str | None) -> LeasedName:
    """A name that was used before, if the controller has one.

    Kafka keeps each transactional id for a week, so a new name for each writer would make many (D-075). But no writer has
    to wait for a name: where the controller is away, is too old or refuses, the writer makes one up.
    """
    ledger = uuid.uuid4().hex
    try:
        given = controller.take_writer_name(topic)
    except OrderedKafkaError as error:
        _LOG.info("a new name for a writer to %s, since the controller gave none: %s", topic, str(error))
        return LeasedName(topic, ledger, None, ledger)
    return LeasedName(topic, given.writer, given.nonce, ledger)


def return_name(controller: ControllerClient, name: LeasedName) -> None:
    """Let others use the name; the caller does not write under it any more. If that fails, Kafka forgets the ids in time."""
    if name.nonce is None:
        return
    try:
        controller.release_writer_name(name.topic, name.writer, name.nonce)
    except OrderedKafkaError as error:
        _LOG.info("the writer's name %s is not used again: %s", name.writer, str(error))
