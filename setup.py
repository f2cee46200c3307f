"""Build configuration; metadata and tool settings that can be static are in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=find_packages(include=["spark_ordered_kafka", "spark_ordered_kafka.*"]),
    py_modules=["pyspark_ordered_kafka"],
    package_data={"spark_ordered_kafka": ["py.typed"]},
)
