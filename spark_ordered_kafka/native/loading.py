"""Whether the native kernel is used: where it was built, and knows the confluent-kafka at hand.

Everything it does is done in Python as well, with the same results, and slower (D-108). The environment variable
``ORDERED_KAFKA_NATIVE`` says which: ``auto`` (the kernel if it loads), ``require`` (an error if it does not) or ``off``.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import sys
from importlib import import_module
from typing import Any

import confluent_kafka
from confluent_kafka import cimpl

from spark_ordered_kafka.errors import ConfigError

VARIABLE = "ORDERED_KAFKA_NATIVE"
MODES = ("auto", "require", "off")
_LOG = logging.getLogger(__name__)
# Those whose clients begin with the rd_kafka_t pointer, and whose dr_msg_cb returns at once for a null opaque (D-109).
_KNOWN_VERSIONS = ((2, 16), (2, 17))


@functools.cache
def kernel() -> Any:
    """The extension module, bound to librdkafka; None where Python does its work.

    Raises ConfigError for another value of the variable, and under ``require`` where the kernel does not load. Under
    ``auto`` a process is warned once.
    """
    mode = os.environ.get(VARIABLE, "auto")
    if mode not in MODES:
        raise ConfigError(VARIABLE, mode, f"must be one of {', '.join(MODES)}")
    if mode == "off":
        return None
    try:
        return _loaded()
    except (ImportError, OSError) as error:
        if mode == "require":
            raise ConfigError(VARIABLE, mode, f"the native kernel does not load: {error}") from error
        _LOG.warning(
            "the native kernel does not load (%s): records are read and written in Python, at a third of its rate or less;"
            " %s=off makes this quiet",
            str(error),
            VARIABLE,
        )
        return None


def _loaded() -> Any:
    version = tuple(
        int("".join(itertools.takewhile(str.isdigit, part)) or 0)
        for part in str(confluent_kafka.version()).split(".")
    )
    if not _KNOWN_VERSIONS[0] <= version < _KNOWN_VERSIONS[1] or sys.implementation.name != "cpython":
        raise ImportError(
            f"it knows the clients of confluent-kafka 2.16 under CPython, not of {confluent_kafka.version()} under"
            f" {sys.implementation.name}"
        )
    module = import_module("spark_ordered_kafka.native._kernel")
    if module.bind(cimpl.__file__) != confluent_kafka.libversion()[1]:
        raise ImportError("another librdkafka than confluent-kafka's answers")
    return module
