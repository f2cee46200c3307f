"""Write rates of partitions that are being moved: a throttle must be above them (Kafka's documentation)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_ordered_kafka.controller.reassign.execution.cluster_poller import Measurement
from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.throttle.policy import Need, too_slow
from spark_ordered_kafka.kafka.values import PartitionId

# Seconds between two measurements: longer than a transaction, or a pause of its writer.
_SPAN = 5.0


class WriteRates:
    """Compares measurements that are a few seconds apart; for one thread."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._sizes: dict[PartitionId, int] = {}
        self._warnings: list[str] = []

    def take_in(self, cluster: ClusterState, measurement: Measurement, needs: Mapping[int, Need]) -> None:
        """Add a measurement."""
        directories = measurement.directories
        if directories.at - self._at < _SPAN:
            return
        leaders, sizes = {}, {}
        for tp in measurement.tps:
            partition = cluster.partitions.get(tp)
            if partition is None or partition.leader not in directories.answered:
                continue
            held = directories.of(tp, partition.leader)
            if held.path is not None:
                leaders[tp], sizes[tp] = partition.leader, held.size
        self._warnings = too_slow(needs, leaders, self._sizes, sizes, directories.at - self._at)
        self._at, self._sizes = directories.at, sizes

    @property
    def warnings(self) -> list[str]:
        """Warnings of throttles that are too low, from the last comparison."""
        return list(self._warnings)
