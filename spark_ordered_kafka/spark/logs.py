"""Where the messages of a query go."""

from __future__ import annotations

import logging

_PACKAGE = "spark_ordered_kafka"


def show_information() -> None:
    """Print this package's messages from level INFO on to stderr where logging is not set up, as in the process in which
    Spark plans a query: there Python prints warnings alone. Spark's driver has them in its own stderr.
    """
    package = logging.getLogger(_PACKAGE)
    if package.hasHandlers() or package.level != logging.NOTSET:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(handler)
    package.setLevel(logging.INFO)
