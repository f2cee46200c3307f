"""Checks of a goal against a cluster. PURE."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from spark_ordered_kafka.client.schemas.reassignments import PlanGoal
from spark_ordered_kafka.controller.placement.planner.values import Broker, Goal, Snapshot
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.listed import listed

_SHOWN = 20

_NEEDED: Final[dict[PlanGoal, tuple[str, ...]]] = {
    "drain": ("brokers",),
    "spread": ("brokers",),
    "balance": (),
    "racks": (),
    "replication_factor": ("replication_factor",),
    "empty_log_dirs": ("brokers", "log_dirs"),
    "balance_log_dirs": ("brokers",),
    "leaders": (),
    "replace_replicas": ("brokers",),
}
_ALLOWED: Final[dict[PlanGoal, tuple[str, ...]]] = {
    **_NEEDED,
    "balance": ("brokers",),
    "leaders": ("brokers",),
}
_OF_LOG_DIRS: Final = ("empty_log_dirs", "balance_log_dirs")
_FIELDS = ("brokers", "replication_factor", "log_dirs")


def check_fields(goal: Goal) -> None:
    """Raises RequestError INVALID_REQUEST for a field that is missing, not used by the goal, or empty."""
    for field in _FIELDS:
        value = getattr(goal, field)
        if value is None and field in _NEEDED[goal.kind]:
            raise invalid_request(f"{field} is missing: the goal {goal.kind} needs it")
        if value is not None and field not in _ALLOWED[goal.kind]:
            used = ", ".join((*_ALLOWED[goal.kind], "topics"))
            raise invalid_request(
                f"{field} has the value {_value(value)}: the goal {goal.kind} uses {used} alone"
            )
    if goal.also is not None and goal.kind in _OF_LOG_DIRS:
        raise invalid_request(
            f"also has the value {_value(goal.also)}: the goal {goal.kind} moves replicas within a broker, and goes with no other"
        )
    if goal.kind in (goal.also or ()):
        raise invalid_request(
            f"also has the value {goal.kind!r}, which is the goal already: name others alone"
        )
    for field in ("brokers", "topics", "log_dirs", "also"):
        values = getattr(goal, field)
        if values is None:
            continue
        if not values:
            raise invalid_request(
                f"{field} is empty: name one at least, or leave the field out where all are meant"
            )
        duplicate = next((value for number, value in enumerate(values) if value in values[:number]), None)
        if duplicate is not None:
            raise invalid_request(f"{field} has the value {duplicate!r} twice: name each once")


def check(goal: Goal, snapshot: Snapshot) -> None:
    """Raises RequestError for a goal that does not fit the cluster: UNKNOWN_MEMBER_ID, LOG_DIR_NOT_FOUND,
    KAFKA_STORAGE_ERROR, BROKER_NOT_AVAILABLE, INVALID_REPLICATION_FACTOR or INVALID_REQUEST."""
    brokers = {broker.id: broker for broker in snapshot.brokers}
    _check_brokers(goal, brokers)
    alive = [broker for broker in snapshot.brokers if broker.alive]
    if goal.kind in ("drain", "replace_replicas") and all(
        broker.id in (goal.brokers or ()) or broker.is_cordoned for broker in alive
    ):
        raise invalid_request(
            f"brokers has the value {_value(goal.brokers or ())}: no other broker is up, and not cordoned, that could take the "
            "replicas"
        )
    if "racks" in (goal.kind, *(goal.also or ())):
        field = "goal" if goal.kind == "racks" else "also"
        without = [broker.id for broker in alive if broker.rack is None]
        if without:
            raise invalid_request(
                f"{field} has the value 'racks': every broker must have one (broker.rack), but {_value(without)} "
                f"{'has' if len(without) == 1 else 'have'} none"
            )
    if goal.replication_factor is not None:
        check_factor(goal.replication_factor, len(alive))
    if goal.kind in (*_OF_LOG_DIRS, "replace_replicas"):
        _check_log_dirs(goal, [brokers[broker] for broker in goal.brokers or ()])


def check_factor(factor: int, brokers: int) -> None:
    """Raises RequestError INVALID_REPLICATION_FACTOR for a factor that so many brokers cannot have."""
    if not 1 <= factor <= brokers:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication_factor has the value {factor}: with {brokers} brokers up it must be between 1 and {brokers}",
        )


def _check_brokers(goal: Goal, brokers: dict[int, Broker]) -> None:
    for broker in goal.brokers or ():
        if broker not in brokers:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"brokers has the value {broker}, which is no broker: known are {_value(sorted(brokers))}",
            )
        if not brokers[broker].alive and goal.kind != "drain":
            up = [one.id for one in brokers.values() if one.alive]
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"brokers has the value {broker}, which is down: up are {_value(sorted(up))}",
            )
    cordoned = [broker for broker in goal.brokers or () if brokers[broker].is_cordoned]
    if goal.kind == "spread" and cordoned:
        raise invalid_request(
            f"brokers has the value {_value(cordoned)}, which {'is' if len(cordoned) == 1 else 'are'} cordoned: nothing is to be "
            "placed there until cordoned.log.dirs is taken back"
        )
    if goal.kind == "empty_log_dirs" and len(goal.brokers or ()) != 1:
        raise invalid_request(
            f"brokers has the value {_value(goal.brokers or ())}: name the one broker whose log_dirs are to be emptied"
        )


def _check_log_dirs(goal: Goal, brokers: Iterable[Broker]) -> None:
    for broker in brokers:
        if broker.log_dirs is None:
            raise RequestError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"brokers has the value {broker.id}, which did not report its log directories: try again when it answers",
            )
        online = {one.path: one.online for one in broker.log_dirs}
        for path in goal.log_dirs or ():
            if path not in online:
                raise RequestError(
                    ErrorCode.LOG_DIR_NOT_FOUND,
                    f"log_dirs has the value {path!r}: broker {broker.id} has {', '.join(online) or 'none'}",
                )
            if not online[path]:
                raise RequestError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"log_dirs has the value {path!r}, which is offline on broker {broker.id}: nothing can be read from it",
                )
        if goal.log_dirs is not None and all(
            one.path in goal.log_dirs or not one.takes_replicas for one in broker.log_dirs
        ):
            raise invalid_request(
                f"log_dirs has the value {_value(goal.log_dirs)}: broker {broker.id} has no other one that is online and not "
                "cordoned"
            )


def unknown_topics(asked: Collection[str], known: Collection[str]) -> None:
    """Raises RequestError INVALID_TOPIC_EXCEPTION for a topic that does not exist."""
    missing = [topic for topic in asked if topic not in known]
    if missing:
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topics has the value {_value(missing)}, which {'do' if len(missing) > 1 else 'does'} not exist",
        )


def _value(values: object) -> str:
    return listed(values, _SHOWN) if isinstance(values, (list, tuple)) else repr(values)
