"""What the jobs beside this file share: settings by Spark conf, ``spark.<job>.<setting>``, all of them judged at once.

spark-submit finds it beside the job; in cluster mode hand it over with ``--py-files jobs/job_settings.py``.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from spark_ordered_kafka import register
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import Given, raise_all, shown, together
from spark_ordered_kafka.spark.datasource import CONF_PREFIX

AVAILABLE_NOW = "availableNow"
_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")


class Setting(NamedTuple):
    """How a setting is read: ``parse(name, text)``, and ``default`` if it is not set. ``hint``: it is required, and why."""

    parse: Callable[[str, str], Any]
    default: Any = None
    hint: str | None = None


def plain(name: str, value: str) -> str:
    """Any text."""
    return value


def trigger(name: str, value: str) -> dict[str, Any]:
    """``availableNow`` or an interval, as arguments of ``DataStreamWriter.trigger``."""
    if value == AVAILABLE_NOW:
        return {"availableNow": True}
    if _INTERVAL.fullmatch(value) is None:
        raise ConfigError(name, value, f"{AVAILABLE_NOW}, or an interval such as 1 second or 5 minutes")
    return {"processingTime": value}


def literally(path: str) -> str:
    """The path for Spark's readers, to which some characters make it a pattern; writers take it as it is."""
    return re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", path)


CHECKPOINT = Setting(
    plain, hint="set it to a directory of this query's own, from which it continues after a restart"
)
TRIGGER = Setting(trigger, {"processingTime": "1 second"})


def settings(
    spark: SparkSession,
    job: str,
    known: Mapping[str, Setting],
    *sides: Callable[[Mapping[str, str], Mapping[str, str]], object],
) -> dict[str, Any]:
    """The job's settings by name; registers the format with the session's conf.

    ``sides`` parse the options of the source or the sink (``spark_ordered_kafka.spark.options``) that the conf gives.
    Raises ConfigError for all that is wrong, unknown names included.
    """
    prefix = f"spark.{job}."
    own, options = under(spark, prefix), under(spark, CONF_PREFIX)
    given = Given(own, prefix)
    return together(
        {name: partial(_take, given, name, setting) for name, setting in known.items()},
        lambda: _check_names(own, known, prefix),
        lambda: register(spark),
        *(partial(side, {}, options) for side in sides),
    )


def under(spark: SparkSession, prefix: str) -> dict[str, str]:
    """The entries of the conf that begin with ``prefix``, without it."""
    entries = spark.conf.getAll.items()
    return {name[len(prefix) :]: value for name, value in entries if name.startswith(prefix)}


def start(writer: DataStreamWriter, found: Mapping[str, Any]) -> None:
    """Start the query with the settings ``checkpoint`` and ``trigger``, and wait for its end."""
    started = writer.option("checkpointLocation", found["checkpoint"]).trigger(**found["trigger"]).start()
    started.awaitTermination()


def run(main: Callable[[], None]) -> None:
    """Run a job; wrong settings end it with their errors alone."""
    try:
        main()
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _take(given: Given, name: str, setting: Setting) -> Any:
    if setting.hint is not None:
        return given.require(name, setting.parse, setting.hint)
    return given.take(name, setting.parse, setting.default)


def _check_names(own: Mapping[str, str], known: Iterable[str], prefix: str) -> None:
    hint = f"the job has {', '.join(known)}"
    raise_all(
        ConfigError(f"unknown setting {prefix}{name}", shown(name, value), hint)
        for name, value in own.items()
        if name not in known
    )
