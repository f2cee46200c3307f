"""Driver and executors must have the same version of this package: what a task is given has no format of its own (D-253)."""

from __future__ import annotations

from typing import Any

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.version import __version__


class SameVersion:
    """What the driver pickles for tasks: unpickled by another version it raises ConfigError, before anything is read or
    written."""

    def __getstate__(self) -> dict[str, Any]:
        return {"version": __version__, "state": self.__dict__}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        check_version(pickled["version"])
        self.__dict__.update(pickled["state"])


def check_version(driver: str) -> None:
    """Raises ConfigError if the driver has another version than this process."""
    if driver != __version__:
        raise ConfigError(
            "spark-ordered-kafka of an executor",
            __version__,
            f"the driver has {driver}; install the same version on the driver and all executors",
        )
