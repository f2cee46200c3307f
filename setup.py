"""Build configuration; metadata and tool settings that can be static are in pyproject.toml."""

from glob import glob
from os.path import isfile

from setuptools import Extension, find_packages, setup

SOURCES = "spark_ordered_kafka/native/src"
SHARE = "share/spark-ordered-kafka"

setup(
    packages=find_packages(include=["spark_ordered_kafka", "spark_ordered_kafka.*"]),
    py_modules=["pyspark_ordered_kafka"],
    # An editable installation puts this directory on sys.path, where Spark looks for pyspark_* modules; without this line
    # setuptools would install a finder, which Spark does not ask.
    package_dir={"": "."},
    package_data={
        "spark_ordered_kafka": ["py.typed"],
        "spark_ordered_kafka.controller.api": ["examples.json"],
        "spark_ordered_kafka.controller.web": ["*.html", "*.css", "*.js", "*.svg"],
    },
    # Source distributions have the kernel's sources (MANIFEST.in), wheels what is made of them.
    include_package_data=False,
    # What users copy or run as it is.
    data_files=[
        (f"{SHARE}/{directory}", sorted(path for path in glob(f"{directory}/*") if isfile(path)))
        for name in ("conf", "jobs", "deploy")
        for directory in (
            name,
            *(path.rstrip("/") for path in sorted(glob(f"{name}/**/", recursive=True)[1:])),
        )
        if "__pycache__" not in directory
    ],
    ext_modules=[
        Extension(
            "spark_ordered_kafka.native._kernel",
            sources=sorted(glob(f"{SOURCES}/*.c")),
            depends=sorted(glob(f"{SOURCES}/*.h")),
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            # Where there is no C compiler, Python does the kernel's work.
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
