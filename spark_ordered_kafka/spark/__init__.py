"""``format("ordered-kafka")`` for PySpark."""

from spark_ordered_kafka.extras import require

require("spark", 'format("ordered-kafka")')
