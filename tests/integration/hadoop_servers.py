"""HDFS, and a server of Amazon's S3 API: jars of Maven Central, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_ordered_kafka.local.jars import Download, Jar, cached_jars
from spark_ordered_kafka.local.java import classpath, find_java, pyspark_jars
from tests.servers import await_true

BUCKET = "checkpoints"
_KEY, _SECRET = "writer", "hush-hush"
_AWS = "2.35.4"
# Seconds that a server may take on a busy machine.
_START = 180.0
_LISTENING = re.compile(r"Started ServerConnector.*\{127\.0\.0\.1:(\d+)\}")
_NAME_NODE = re.compile("<value>(hdfs://[^<]*)</value>")
# Brokers of Kafka have no such logging; PySpark has it.
_LOGGING = (
    "slf4j-api-*.jar",
    "jcl-over-slf4j-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
)


def hadoop_version() -> str:
    """That of PySpark's Hadoop."""
    (jar,) = pyspark_jars("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


@contextmanager
def hdfs(directory: Path) -> Iterator[str]:
    """A name node and a data node; the URI of their file system."""
    version = hadoop_version()
    servers = Download(
        f"HDFS {version}",
        f"hdfs-{version}",
        (Jar("org.apache.hadoop", "hadoop-client-minicluster", version),),
        conf="master",
    )
    assertions = Download("JUnit", "junit", (Jar("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),))
    jars = [*_jars(servers), *_jars(assertions), *pyspark_jars("hadoop-client-*.jar", *_LOGGING)]
    written = directory / "written.xml"
    arguments = ["-datanodes", "1", "-nnport", "0", "-httpport", "0", "-format", "-writeConfig", str(written)]
    with _running(directory, jars, "org.apache.hadoop.test.MiniDFSClusterManager", *arguments):

        def uri() -> str | None:
            found = _NAME_NODE.search(written.read_text()) if written.exists() else None
            return found and found.group(1)

        await_true(lambda: uri() is not None, "HDFS has started", _START)
        yield str(uri())


@contextmanager
def s3(directory: Path) -> Iterator[dict[str, str]]:
    """A server with an empty bucket; the Spark conf with which it is reached."""
    (directory / "buckets" / BUCKET).mkdir(parents=True)
    properties = directory / "s3proxy.conf"
    settings = {
        "s3proxy.endpoint": "http://127.0.0.1:0",
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": _KEY,
        "s3proxy.credential": _SECRET,
        "jclouds.provider": "filesystem",
        "jclouds.filesystem.basedir": str(directory / "buckets"),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    jars = _jars(Download("S3Proxy", "s3proxy-2.6.0", (Jar("org.gaul", "s3proxy", "2.6.0"),)))
    with _running(directory, jars, "org.gaul.s3proxy.Main", "--properties", str(properties)) as log:

        def port() -> str | None:
            found = _LISTENING.search(log.read_text())
            return found and found.group(1)

        await_true(lambda: port() is not None, "S3Proxy has started", _START)
        yield {
            "spark.jars": ",".join(map(str, _connector())),
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port()}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _SECRET,
            # The server does not know the checksums of this request.
            "spark.hadoop.fs.s3a.multiobjectdelete.enable": "false",
        }


def _connector() -> list[Path]:
    """Hadoop's of S3 with what it needs of Amazon's library, whose jar of everything has 600 MB."""
    version = hadoop_version()
    modules = tuple(
        Jar("software.amazon.awssdk", name, _AWS) for name in ("s3", "s3-transfer-manager", "sts")
    )
    alone = (
        Jar("org.apache.hadoop", "hadoop-aws", version),
        Jar("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    )
    return [
        *_jars(Download("Amazon's S3 client", f"aws-s3-{_AWS}", modules)),
        *_jars(Download(f"Hadoop {version} for S3", f"hadoop-aws-{version}", alone, conf="master")),
    ]


def _jars(wanted: Download) -> list[Path]:
    return cached_jars(wanted, java=find_java(), progress=lambda _: None)


@contextmanager
def _running(directory: Path, jars: list[Path], main: str, *arguments: str) -> Iterator[Path]:
    """A process of a class while the block lasts; the file of what it prints."""
    log = directory / "server.log"
    command = [find_java(), "-Xmx512m", "-cp", classpath(jars), main, *arguments]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield log
        finally:
            process.kill()
