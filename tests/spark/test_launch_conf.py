"""Names of Spark conf on the command line of a JVM."""

from __future__ import annotations

from pathlib import Path

from spark_ordered_kafka.spark.launch_conf import _names, names_at_launch

PREFIX = "spark.ordered-kafka."
JVM = ["java", "-cp", "/jars/*", "org.apache.spark.deploy.SparkSubmit"]
FILE = """
# spark.ordered-kafka.topic   out
spark.ordered-kafka.subscribe orders
  spark.ordered-kafka.failOnDataLoss=false
spark.ordered-kafka.controller.url: http://c1:8090
spark.ordered_copy.trigger    1 second
"""
OF_FILE = [f"{PREFIX}{name}" for name in ("subscribe", "failOnDataLoss", "controller.url")]


def names(*words: str, directory: Path = Path("/"), **environment: str) -> list[str]:
    return list(_names([*JVM, *words], directory, environment, PREFIX))


def test_conf_options_without_their_values() -> None:
    conf = ("--conf", "spark.ordered-kafka.kafka.sasl.password=a=b", "-c", "spark.ordered-kafka.topic=x")
    assert names(*conf, "--conf", "spark.master=local", "app.py", "spark.ordered-kafka.x=1") == [
        f"{PREFIX}kafka.sasl.password",
        f"{PREFIX}topic",
    ]


def test_a_properties_file_wins_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "job.conf").write_text(FILE)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.ordered-kafka.topic out\n")
    home = str(tmp_path)
    assert names("--properties-file", "job.conf", directory=tmp_path, SPARK_HOME=home) == OF_FILE
    assert names(SPARK_HOME=home) == [f"{PREFIX}topic"]
    assert names(SPARK_HOME=home, SPARK_CONF_DIR=str(tmp_path / "none")) == []
    assert names("--properties-file", str(tmp_path / "gone")) == []


def test_a_process_that_no_spark_has_started_has_none() -> None:
    assert names_at_launch(PREFIX) == []
