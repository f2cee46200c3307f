"""``python -m spark_ordered_kafka.cli``."""

from spark_ordered_kafka.cli import main

main()
