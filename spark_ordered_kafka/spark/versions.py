"""Driver and executors must have the same version of this package: what a task is given has no format of its own (D-253)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import cloudpickle

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.version import __version__


class SameVersion:
    """What the driver pickles for tasks; see :func:`carried`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(type(self), self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


def carried(made: type[Any], state: Mapping[str, Any]) -> tuple[Any, ...]:
    """How an object of class ``made`` is pickled for a task, by cloudpickle only (D-277).

    Unpickled where this package cannot be imported it raises ImportError, by another version of it ConfigError: before
    anything is read or written, with the host and what to do.
    """
    # Pickled on its own, so that what says what is missing comes first.
    return _LOAD, (__version__, cloudpickle.dumps((made, dict(state))))  # type: ignore[no-untyped-call]


def check_version(driver: str) -> None:
    """Raises ConfigError if the driver has another version than this process."""
    if driver != __version__:
        raise ConfigError(
            f"spark-ordered-kafka on host {platform.node()}",
            __version__,
            f"the driver has {driver}; install the same version on the driver and all executors",
        )


def _loader() -> Callable[[str, bytes], Any]:
    # Inside of a function it belongs to no module by name, so cloudpickle carries its code to where there is no package.
    def load(driver: str, pickled: bytes) -> Any:
        import pickle
        import platform
        import sys

        try:
            from spark_ordered_kafka.spark.versions import check_version

            check_version(driver)
            # Only now: another version need not have it.
            from spark_ordered_kafka.spark.address_space import share_arenas

            share_arenas()
            made, state = pickle.loads(pickled)
        except ImportError as error:
            raise ImportError(
                f"the package spark-ordered-kafka (the driver has {driver}) cannot be imported on host"
                f" {platform.node()} by {sys.executable}: {error}. Install it there with the extra spark, or ship it"
                " with the job: docs/deploy.md"
            ) from error
        found = made.__new__(made)
        found.__dict__.update(state)
        return found

    return load


_LOAD = _loader()
