"""Who has the place of a static member in its group (KIP-345)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.clients import described_group, new_client
from spark_ordered_kafka.kafka.properties import admin_properties

_INSTANCE = "group.instance.id"
# Seconds for the group's coordinator to say who has the place; the application's poll() waits for it.
_TIMEOUT = 3.0

_LOG = logging.getLogger(__name__)


class Place:
    """The place of one consumer; of a member without ``group.instance.id`` there is none, so that no other takes it.

    Args:
        kafka: librdkafka's properties of the connection, with those of the member.
        group: its name.
    """

    def __init__(self, kafka: Mapping[str, Any], group: str) -> None:
        self._kafka = kafka
        self._group = group
        self._instance = kafka.get(_INSTANCE)
        self._member: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the member keeps its place when it is closed."""
        return self._instance is not None

    def take(self, member: str | None) -> None:
        """The group has assigned partitions to this consumer, whose member's id that is; None: it has none, or an unknown one."""
        self._member = member

    def loss(self, login: tuple[str, str] | None) -> RequestError | None:
        """The error to end with if another process has joined with the same ``group.instance.id``.

        None where none has, where this one may have an id that it does not know, or the group's coordinator does not say: then
        the one that joins last has the place.
        ``login``: user and password, where they are other ones than in the configuration.
        """
        if self._instance is None or self._member is None:
            return None
        try:
            holder = self._holder(login)
        except OrderedKafkaError as error:
            _LOG.warning("it is not known whether another process has this consumer's place: %s", str(error))
            return None
        if holder in (None, self._member):
            return None
        return RequestError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"group {self._group!r} has no place for this consumer any more: another process has joined with the same"
            f" {_INSTANCE}, {self._instance!r}, while this one did not poll, or had no connection",
        )

    def _holder(self, login: tuple[str, str] | None) -> str | None:
        """The id of the member that has the place."""
        own = {} if login is None else dict(zip(("sasl.username", "sasl.password"), login, strict=True))
        # No warnings: of a consumer's properties an admin client says that it ignores them.
        admin = new_client(AdminClient, admin_properties({**self._kafka, **own, "log_level": "3"}))
        described = described_group(admin, self._group, _TIMEOUT)
        members = [] if described is None else described.members
        return next((one.member_id for one in members if one.group_instance_id == self._instance), None)
