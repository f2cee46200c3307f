"""The policy's state as a znode, and observations as the API shows them. PURE."""

from __future__ import annotations

from typing import cast

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas.healing import HealingAction, HealingKind
from spark_ordered_kafka.controller.healing.observation import ObservedBroker
from spark_ordered_kafka.controller.healing.policy import State
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.healing import ConditionEntry, HealingRecord
from spark_ordered_kafka.updates import updated


def remembered(record: HealingRecord) -> State:
    """The state that a new leader begins with. Words of a newer controller match nothing, and are dropped with time."""
    return State(
        since={(cast(HealingKind, one.kind), one.subject): one.since for one in record.conditions},
        observed_at=record.observed_at,
        requests=record.requests,
        tried={cast(HealingAction, action): at for action, at in record.tried.items()},
    )


def stored(record: HealingRecord, state: State) -> HealingRecord:
    """``record`` with the state in it."""
    return updated(
        record,
        conditions=tuple(
            ConditionEntry(kind=kind, subject=subject, since=since)
            for (kind, subject), since in sorted(state.since.items())
        ),
        observed_at=state.observed_at,
        requests=state.requests,
        tried={str(action): at for action, at in state.tried.items()},
    )


def broker_view(broker: ObservedBroker) -> schemas.HealingBroker:
    """A broker as the API shows it."""
    log_dirs = None
    if broker.directories is not None:
        log_dirs = [
            view(
                schemas.HealingDirectory,
                one,
                used_bytes=one.used,
                free_bytes=one.free,
                total_bytes=one.total,
            )
            for one in broker.directories
        ]
    return view(schemas.HealingBroker, broker, broker=broker.id, log_dirs=log_dirs)
