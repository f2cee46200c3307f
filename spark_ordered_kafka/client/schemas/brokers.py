"""Brokers and their guard rails (KIP-578)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_serializer

from spark_ordered_kafka.client.schemas.base import Answer, Request


class BrokerView(Answer):
    """A row of ``GET /v1/brokers`` (KIP-578).

    ``hosted`` counts replicas, those that are being added or planned included; ``capacity`` is how many more the broker
    takes, ``excess`` how many it has beyond ``max_partitions``, which is tolerated. ``alive`` is false of a broker that is
    down: it is shown while it has replicas or a limit of its own. ``cordoned``: nothing is placed there, but what a request
    names it for (KIP-1066).
    """

    id: int
    rack: str | None
    hosted: int
    max_partitions: int
    capacity: int
    alive: bool = True
    excess: int = 0
    cordoned: bool = False


class BrokerList(Answer):
    """``GET /v1/brokers``."""

    brokers: list[BrokerView]


class GuardRailsRequest(Request):
    """``PUT /v1/brokers/{id}/guard-rails``. ``max_partitions``: replicas that the broker may host; 0: it takes no more,
    null: the controller's ``max.broker.partitions``."""

    max_partitions: Annotated[int, Field(ge=0, le=2**31 - 1)] | None
    validate_only: bool = False

    @model_serializer
    def _whole(self) -> dict[str, object]:
        # null says something here, so it must not be left out like that of optional fields.
        return {"max_partitions": self.max_partitions, "validate_only": self.validate_only}
