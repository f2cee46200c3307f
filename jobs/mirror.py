"""Copy ordered topics of one cluster to the topics of the same names of another one: key, value, headers and timestamp.

Run it with spark-submit; everything is set by Spark conf (see conf/mirror.properties)::

    spark-submit --properties-file conf/mirror.properties jobs/mirror.py

Each key keeps its order, nothing is lost or doubled in the target. Both clusters have controllers and partition counts of their
own, which change independently of each other. Offsets of the copies are others, so groups begin anew at the target.

Conf:

* ``spark.mirror-source.*``: options of the source, of which ``subscribe`` or ``subscribePattern`` names the topics,
* ``spark.mirror-target.*``: options of the sink. Its topics are not made by themselves,
* ``spark.mirror.checkpoint`` (required): checkpoint directory,
* ``spark.mirror.trigger`` (default ``1 second``): ``availableNow`` or a processing-time interval.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from job_settings import CHECKPOINT, TRIGGER, run, settings, start, under
from pyspark.sql import SparkSession

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, ConfigErrors
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.parsing import raise_all
from spark_ordered_kafka.spark.options import sink_options, stream_options

SETTINGS = {"checkpoint": CHECKPOINT, "trigger": TRIGGER}
SOURCE, TARGET = "spark.mirror-source.", "spark.mirror-target."
COPIED = ("key", "value", "headers", "timestamp", "topic")

OptionsT = TypeVar("OptionsT")


def side(prefix: str, parse: Callable[[Mapping[str, str]], OptionsT], options: Mapping[str, str]) -> OptionsT:
    """The options of a side; raises ConfigError that says of which."""
    try:
        return parse(options)
    except ConfigError as error:
        several = error.errors if isinstance(error, ConfigErrors) else (error,)
        for one in several:
            one.args = (f"{prefix}*: {one}",)
    raise_all(several)
    raise AssertionError("an error was raised")


def check_clusters(source: Connection, target: Connection) -> None:
    """Raises ConfigError where both are one cluster: each record would be copied to its own topic, for ever."""
    if LogRanges(source).cluster_id() == LogRanges(target).cluster_id():
        servers = f"{TARGET}kafka.bootstrap.servers"
        raise ConfigError(
            servers, target.bootstrap_servers, "the brokers of another cluster than the source's"
        )


def main() -> None:
    """Start the query and wait for its end."""
    spark = SparkSession.builder.appName("mirror").getOrCreate()
    source = under(spark, SOURCE) | {"includeHeaders": "true"}
    target = under(spark, TARGET) | {"keepTimestamps": "true"}
    found = settings(
        spark,
        "mirror",
        SETTINGS,
        lambda *_: side(SOURCE, stream_options, source),
        lambda *_: side(TARGET, sink_options, target),
    )
    check_clusters(stream_options(source).connection, sink_options(target).connection)
    records = spark.readStream.format("ordered-kafka").options(**source).load()
    start(records.select(*COPIED).writeStream.format("ordered-kafka").options(**target), found)


if __name__ == "__main__":
    run(main)
