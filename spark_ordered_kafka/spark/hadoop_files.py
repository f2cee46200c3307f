"""Files of HDFS and of object stores, by Hadoop's file systems: those through which Spark itself keeps checkpoints.

A SparkContext of this process brings the cluster's configuration (``spark-defaults.conf``, ``HADOOP_CONF_DIR``), credentials
and connectors (``spark.jars.packages``). Bytes are copied in its JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext

from spark_ordered_kafka.errors import ConfigError

# What the user's own configuration cannot change: this is no job of the cluster.
_OWN = {
    "spark.master": "local[1]",
    "spark.submit.deployMode": "client",
    "spark.app.name": "ordered-kafka migrate-checkpoint",
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "ERROR",
}
_CONNECTORS = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "hadoop-gcp"}
_ABSENT = ("ClassNotFoundException", "NoClassDefFoundError")
_ERRORS: dict[str, type[OSError]] = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
}


class HadoopFiles:
    """Files by their URIs, through a JVM with Hadoop. Implements :class:`~spark_ordered_kafka.spark.files.Files`."""

    def __init__(self, jvm: Any, configuration: Any) -> None:
        self._jvm = jvm
        self._configuration = configuration

    def located(self, option: str, uri: str) -> str:
        """The URI, with what the configuration adds. Raises ConfigError: there is no such file system."""
        try:
            path = self._path(uri)
            return str(path.getFileSystem(self._configuration).makeQualified(path).toString())
        except Py4JJavaError as error:
            said = _said(error)
            raise ConfigError(
                option, uri, f"Spark does not reach it: {said}{self._hint(uri, said)}"
            ) from error

    def of_this_machine(self, path: str) -> str:
        """The URI of an absolute path."""
        return str(self._jvm.org.apache.hadoop.fs.Path("file", "", path).toString())

    def names(self, directory: str) -> list[str]:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        path = self._path(directory)
        try:
            with _as_os_error():
                found = self._system(path).listStatus(path)
        except FileNotFoundError:
            return []
        return [str(one.getPath().getName()) for one in found]

    def below(self, directory: str) -> list[str]:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        path, root, found = self._path(directory), f"{directory.rstrip('/')}/", []
        try:
            with _as_os_error():
                remaining = self._system(path).listFiles(path, True)
                while remaining.hasNext():
                    found.append(str(remaining.next().getPath().toString()).removeprefix(root))
        except FileNotFoundError:
            return []
        return found

    def read(self, path: str) -> bytes | None:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        file = self._path(path)
        try:
            with _as_os_error(), closing(self._system(file).open(file)) as stream:
                return bytes(stream.readAllBytes())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        self._write(path, content, overwrite=True)

    def create(self, path: str, content: bytes) -> None:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        self._write(path, content, overwrite=False)

    def copy(self, source: str, target: str) -> None:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        here, there = self._path(source), self._path(target)
        copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
        with _as_os_error():
            copy(self._system(here), here, self._system(there), there, False, True, self._configuration)

    def delete(self, directory: str) -> None:
        """See :class:`~spark_ordered_kafka.spark.files.Files`."""
        path = self._path(directory)
        with suppress(FileNotFoundError), _as_os_error():
            self._system(path).delete(path, True)

    def _write(self, path: str, content: bytes, *, overwrite: bool) -> None:
        file = self._path(path)
        # An object is there once the stream is closed.
        with _as_os_error(), closing(self._system(file).create(file, overwrite)) as stream:
            stream.write(content)

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    def _system(self, path: Any) -> Any:
        # Hadoop keeps one of each.
        return path.getFileSystem(self._configuration)

    def _hint(self, uri: str, said: str) -> str:
        scheme = uri.partition(":")[0]
        if scheme not in _CONNECTORS or not any(absent in said for absent in _ABSENT):
            return ""
        version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        package = f"org.apache.hadoop:{_CONNECTORS[scheme]}:{version}"
        return f": give its package, for example --conf spark.jars.packages={package}"


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raises what Java has thrown as an OSError; FileNotFoundError and FileExistsError as such."""
    try:
        yield
    except Py4JJavaError as error:
        kind = _ERRORS.get(error.java_exception.getClass().getName(), OSError)
        raise kind(_said(error)) from error


def _said(error: Py4JJavaError) -> str:
    """The first line of the message of what Java has thrown."""
    return str(error.java_exception.toString()).partition("\n")[0]


@contextmanager
def hadoop_files(conf: Mapping[str, str]) -> Iterator[HadoopFiles]:
    """Start a Spark of this process with ``conf``, which goes before the configuration that is there; stop it afterwards.

    Raises ConfigError: it does not start.
    """
    settings = SparkConf().setAll([*conf.items(), *_OWN.items()])
    try:
        context = SparkContext(conf=settings)
    except (Py4JJavaError, RuntimeError, ValueError) as error:
        raise ConfigError("--conf", None, f"Spark does not start: {error}") from error
    try:
        yield HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())
    finally:
        context.stop()
