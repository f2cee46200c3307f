"""What placement is timed on: clusters whose brokers can take as much as is said."""

from __future__ import annotations

import pytest

from benchmarks.parts.placement import capacities


@pytest.mark.parametrize(("brokers", "replicas"), [(6, 30), (7, 30), (1, 1)])
def test_capacities_are_as_tight_as_is_said(brokers: int, replicas: int) -> None:
    found = capacities(brokers, replicas)
    differing, enough = found["limits that differ"], found["limits that are just enough"]
    assert differing is not None
    assert enough is not None
    assert len(differing) == len(enough) == brokers
    assert sum(enough.values()) == replicas
    assert max(enough.values()) - min(enough.values()) <= 1
    assert min(differing.values()) * brokers >= replicas
