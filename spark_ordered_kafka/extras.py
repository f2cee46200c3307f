"""Libraries that are installed with an extra of this package, and the error where one is missing (D-231)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final, Literal

from spark_ordered_kafka.errors import MissingExtraError

Extra = Literal["spark", "controller", "zookeeper-sasl", "local", "metrics"]

MODULES: Final[Mapping[Extra, tuple[str, ...]]] = {
    "spark": ("pyspark", "pyarrow"),
    "controller": (
        "fastapi",
        "uvicorn",
        "h11",
        "kafka",
        "kazoo",
        "httpx2",
        "prometheus_client",
        "structlog",
        "cryptography",
    ),
    "zookeeper-sasl": ("puresasl",),
    "metrics": ("prometheus_client",),
    "local": ("pyspark", "psutil", "trustme", "kazoo", "httpx2", "cryptography"),
}
"""What each extra's code cannot be imported or started without."""


def require(extra: Extra, what: str) -> None:
    """Check that the libraries of an extra are there, without importing them.

    Args:
        what: needs them; begins the message.

    Raises:
        MissingExtraError: one is not there; it says what to install.
    """
    absent = missing(extra)
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        raise MissingExtraError(
            f"{what} needs {', '.join(absent)}, which {verb} not installed: {command(extra)}"
        )


def missing(extra: Extra) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in MODULES[extra] if name not in sys.modules and find_spec(name) is None]


def command(extra: Extra) -> str:
    """The command that installs an extra."""
    return f"pip install 'spark-ordered-kafka[{extra}]'"
