"""The policy's state as a znode, and observations as the API shows them. PURE."""

from __future__ import annotations

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.autoscale.load import Observation, utilizations
from spark_ordered_kafka.controller.autoscale.policy import State
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.state.autoscale import AutoscaleRecord
from spark_ordered_kafka.updates import updated


def remembered(record: AutoscaleRecord) -> State:
    """The state that a new leader begins with."""
    return State(changes=record.changes, readings=record.readings)


def stored(record: AutoscaleRecord, state: State) -> AutoscaleRecord:
    """``record`` with what of ``state`` outlasts a leader."""
    return updated(record, changes=state.changes, readings=dict(state.readings))


def observation_view(observation: Observation, rules: Rules, at: float) -> schemas.AutoscaleObservation:
    """An observation of ``at`` (seconds since the epoch)."""
    return schemas.AutoscaleObservation(
        at=at,
        bytes_per_second=list(observation.bytes),
        records_per_second=list(observation.records),
        peak=max(utilizations(observation, rules)),
        groups=[
            schemas.AutoscaleGroup(
                group=group, lag=list(load.lag), read_per_second=list(load.read), members=load.members
            )
            for group, load in sorted(observation.groups.items())
        ],
    )
