"""Self-healing evens out real volumes of different sizes: log directories are file systems of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.local import LocalCluster
from tests.integration.log_dirs.moving import fill
from tests.integration.test_healing import RULES, healing, outcomes, placed, until
from tests.servers import TIMEOUT, await_true

MIB = 2**20
PARTITIONS = 12
SIZE = 5 * MIB
"""Bytes of a partition. Kafka gives each log directory as many partitions: half of them take most of the small volume."""
SMALL, LARGE = 48, 192
"""MiB of the volumes."""
UNEVEN = replace(RULES, uneven_after=0.5, disk_difference=0.15, leader_difference=1000.0)


@contextmanager
def volume(path: Path, mebibytes: int) -> Iterator[None]:
    """The directory on a volume of its own, with all that is in it; its server must not run meanwhile."""
    aside = path.with_name(f"{path.name}-aside")
    path.rename(aside)
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "uneven", str(path)], check=True)
    try:
        shutil.copytree(aside, path, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers: the first has a small and a large volume, the second one two large ones."""
    with LocalCluster(tmp_path_factory.mktemp("uneven"), brokers=2, controllers=0) as cluster:
        first, second = (
            [Path(path) for path in broker["log_dirs"]] for broker in cluster.description()["brokers"]
        )
        for number in (1, 2):
            cluster.stop(f"broker-{number}")
        with (
            volume(first[0], SMALL),
            volume(first[1], LARGE),
            volume(second[0], LARGE),
            volume(second[1], LARGE),
        ):
            for number in (1, 2):
                cluster.start(f"broker-{number}")
            yield cluster
            cluster.down()


@pytest.fixture
def admin(uneven: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(uneven.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts volumes, which root may")
def test_volumes_are_filled_by_their_size(uneven: LocalCluster, admin: KafkaAdmin) -> None:
    topic = placed(admin, *[[1]] * PARTITIONS)
    for partition in range(PARTITIONS):
        fill(uneven.bootstrap_servers, topic, SIZE, partition)
    (small, _), _ = paths = [broker["log_dirs"] for broker in uneven.description()["brokers"]]
    with healing(uneven, UNEVEN) as running:
        # Found one after another; what was found is mended at once.
        until(
            running,
            "the volumes are seen",
            lambda one: (
                any(found.kind == "log_dirs_uneven" for found in one.findings)
                or outcomes(one, "balance_log_dirs")
            ),
        )
        # Between two steps nothing may be found for a moment.
        until(
            running,
            "all is even",
            lambda one: (
                one.at is not None
                and not one.findings
                and "done" in outcomes(one, "balance_log_dirs")
                and "done" in outcomes(one, "balance")
            ),
        )
    held: dict[str, int] = {}

    def is_whole() -> bool:
        """Brokers drop a replica that has moved away a moment later."""
        held.update((path, size) for broker in (1, 2) for path, size in sizes(admin, topic, broker).items())
        return sum(held.values()) == pytest.approx(PARTITIONS * SIZE, rel=0.1)

    await_true(is_whole, "nothing is lost, nothing twice")
    shares = [
        (held[one] + held[other]) / ((SMALL if one == small else LARGE) + LARGE) / MIB for one, other in paths
    ]
    assert max(shares) - min(shares) <= UNEVEN.disk_difference
    assert held[small] / SMALL / MIB <= max(shares) + UNEVEN.disk_difference


def sizes(admin: KafkaAdmin, topic: str, broker: int) -> dict[str, int]:
    """Bytes of the topic's replicas in each log directory of the broker."""
    (answer,) = (
        LogDirs(admin.requests, timeout=TIMEOUT).describe([broker], {topic: range(PARTITIONS)}).values()
    )
    assert isinstance(answer, list), answer
    return {one.path: sum(replica.size for replica in one.replicas) for one in answer}
