"""Bodies about the controllers themselves."""

from __future__ import annotations

from typing import Literal

from spark_ordered_kafka.client.schemas.base import Answer, Open, Result

Role = Literal["leader", "follower"]


class Readiness(Result):
    """What a controller does that is ready. ``leader`` is the leader's URL and ``epoch`` its controller epoch; None while
    there is none that serves."""

    role: Open[Role] | None = None
    leader: str | None = None
    epoch: int | None = None


class ControllerView(Answer):
    """A controller that lives: it has a session with ZooKeeper."""

    id: str
    url: str
    role: Open[Role]


class ControllerList(Answer):
    """All controllers. ``leader`` is the leader's URL and ``epoch`` its controller epoch; None while there is none."""

    controllers: list[ControllerView]
    leader: str | None = None
    epoch: int | None = None
