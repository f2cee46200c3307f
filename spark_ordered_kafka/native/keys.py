"""The hashes and the partitions of the keys in an Arrow array: by the kernel, or by Python where there is none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering import key_hashes as key_hashes_of
from spark_ordered_kafka.ordering.routing import Routing


def key_hashes(name: str, keys: pa.Array) -> npt.NDArray[np.uint32]:
    """As :func:`ordering.key_hashes <spark_ordered_kafka.ordering.key_hashes>`, of binary or large_binary keys."""
    native = kernel()
    if native is None:
        return key_hashes_of(name, keys.to_pylist())
    return np.frombuffer(native.key_hashes(name, keys), np.uint32)


def partitions(routing: Routing, keys: pa.Array) -> npt.NDArray[np.int32]:
    """As :meth:`Routing.partitions`, of binary or large_binary keys."""
    native = kernel()
    if native is None:
        return routing.partitions(keys.to_pylist())
    return np.frombuffer(
        native.partitions(routing.hash, routing.initial_count, routing.count, keys), np.int32
    )
