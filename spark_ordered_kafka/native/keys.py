"""The hashes and the partitions of many keys: by the kernel, or by Python where there is none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.native.contents import Contents, objects
from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering import key_hashes as key_hashes_of
from spark_ordered_kafka.ordering.routing import Routing


def key_hashes(name: str, keys: Contents) -> npt.NDArray[np.uint32]:
    """As :func:`ordering.key_hashes <spark_ordered_kafka.ordering.key_hashes>`."""
    native = kernel()
    if native is None:
        return key_hashes_of(name, objects(keys))
    return np.frombuffer(native.key_hashes(name, keys), np.uint32)


def partitions(routing: Routing, keys: Contents) -> npt.NDArray[np.int32]:
    """As :meth:`Routing.partitions`."""
    native = kernel()
    if native is None:
        return routing.partitions(objects(keys))
    return np.frombuffer(
        native.partitions(routing.hash, routing.initial_count, routing.count, keys), np.int32
    )
