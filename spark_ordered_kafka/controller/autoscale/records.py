"""The policy's state as a znode, and observations as the API shows them. PURE."""

from __future__ import annotations

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.autoscale.load import Observation, utilizations
from spark_ordered_kafka.controller.autoscale.policy import Change, Reading, State
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.state.autoscale import AutoscaleRecord, ChangeEntry, ReadingEntry
from spark_ordered_kafka.updates import updated


def remembered(record: AutoscaleRecord) -> State:
    """The state that a new leader begins with."""
    return State(
        changes=tuple(Change(one.at, one.source, one.target) for one in record.changes),
        readings={group: Reading(one.at, one.rate) for group, one in record.readings.items()},
    )


def stored(record: AutoscaleRecord, state: State) -> AutoscaleRecord:
    """``record`` with what of ``state`` outlasts a leader."""
    return updated(
        record,
        changes=tuple(ChangeEntry(at=one.at, source=one.source, target=one.target) for one in state.changes),
        readings={group: ReadingEntry(at=one.at, rate=one.rate) for group, one in state.readings.items()},
    )


def observation_view(seen: Observation, rules: Rules, at: float) -> schemas.AutoscaleObservation:
    """An observation of ``at`` (seconds since the epoch)."""
    return schemas.AutoscaleObservation(
        at=at,
        bytes_per_second=list(seen.bytes),
        records_per_second=list(seen.records),
        peak=max(utilizations(seen, rules)),
        groups=[
            schemas.AutoscaleGroup(
                group=group, lag=list(load.lag), read_per_second=list(load.read), members=load.members
            )
            for group, load in sorted(seen.groups.items())
        ],
    )
