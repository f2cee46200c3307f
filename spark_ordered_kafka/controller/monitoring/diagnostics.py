"""What a controller finds out about itself, ZooKeeper and its rights, for ``ordered-kafka doctor``."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import version as installed

from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.settings import ControllerSettings
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.zk.servers import servers
from spark_ordered_kafka.controller.zk.session import ROOT, Session
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.ids import LEDGERS, id_prefix
from spark_ordered_kafka.kafka.own_rights import OwnRights
from spark_ordered_kafka.version import __version__

# docs/security.md, "for the controllers"; CREATE on topics cannot be asked for topics that exist.
ON_CLUSTER = ("DESCRIBE", "CREATE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
ON_TOPICS = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "ALTER", "ALTER_CONFIGS", "DELETE")
ON_WRITERS = ("DESCRIBE", "WRITE")
ON_LEDGERS = ("DESCRIBE", "DELETE")
# Stands for all names that begin alike: Kafka tells the rights on a name, not on a pattern.
_ANY = "doctor"
_LIBRARIES = ("confluent-kafka", "kafka-python", "kazoo", "fastapi", "uvicorn")
_PATIENCE = 3.0
ZNODES = {
    ROOT: {
        "controller", "controller_epoch", "election", "topics", "admin", "autoscale", "brokers", "healing", "reviews", "protected",
    },
    f"{ROOT}/admin": {
        "create_topics", "delete_topics", "release_topics", "reassign_partitions", "reassign_partitions_status",
        "reassign_partitions_throttles",
    },
}  # fmt: skip
"""Names of the znodes that this version makes, by parent."""
# kazoo.security.Permissions: write, create, delete and admin.
_ALTERS = 2 | 4 | 8 | 16


class Diagnosis:
    """Of one controller. ``clock``: the time that it goes by; ``timeout``: seconds for each of Kafka's answers."""

    def __init__(
        self,
        settings: ControllerSettings,
        controller_id: str,
        session: Session,
        znodes: Znodes,
        admin: KafkaAdmin,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._id = controller_id
        self._session = session
        self._znodes = znodes
        self._rights = OwnRights(admin.requests, timeout)

    def diagnose(self, role: str) -> schemas.Diagnostics:
        """All of it; raises UnavailableError when Kafka or ZooKeeper does not answer."""
        return schemas.Diagnostics(
            id=self._id,
            url=self._settings.url,
            role=role,
            version=__version__,
            python=platform.python_version(),
            libraries={name: installed(name) for name in _LIBRARIES},
            settings=shared_settings(self._settings),
            zookeeper=servers(self._settings.zookeeper, _PATIENCE),
            znodes_open=self._is_open(),
            unknown_znodes=sorted(self._unknown()),
            missing_rights=self._missing(),
            time=time.time(),
            counted_time=self._clock(),
        )

    def _is_open(self) -> bool:
        acls, _ = self._session.wait(self._session.client.get_acls_async(ROOT), ROOT)
        return any(one.id.scheme == "world" and one.perms & _ALTERS for one in acls)

    def _unknown(self) -> Iterable[str]:
        for path, known in ZNODES.items():
            try:
                names = self._session.wait(self._session.client.get_children_async(path), path)
            except NoNodeError:
                continue
            yield from (f"{path}/{name}" for name in names if name not in known)

    def _missing(self) -> list[str]:
        allowed = self._rights.on_cluster()
        missing = [f"{name} on the cluster" for name in ON_CLUSTER if name not in allowed]
        topics = self._znodes.topics()
        by_topic = self._rights.on_topics(topics)
        for topic in topics:
            missing += [
                f"{name} on topic {topic}" for name in ON_TOPICS if name not in by_topic.get(topic, ON_TOPICS)
            ]
        return missing + self._missing_on_writers(topics)

    def _missing_on_writers(self, topics: Collection[str]) -> list[str]:
        """Of transactional ids and of groups, the ledgers of writers among them."""
        prefixes = [id_prefix(topic) for topic in topics] or [LEDGERS]
        writers = self._rights.on_transactional_ids([prefix + _ANY for prefix in prefixes])
        groups = self._rights.on_groups([_ANY, *(prefix + _ANY for prefix in prefixes)])
        missing = [] if "DESCRIBE" in groups.get(_ANY, ON_LEDGERS) else ["DESCRIBE on groups"]
        for prefix in prefixes:
            name = prefix + _ANY
            missing += [
                f"{one} on transactional ids {prefix}*" for one in ON_WRITERS if one not in writers[name]
            ]
            missing += [
                f"{one} on groups {prefix}*" for one in ON_LEDGERS if one not in groups.get(name, ON_LEDGERS)
            ]
        return missing


def shared_settings(settings: ControllerSettings) -> dict[str, str]:
    """What should be the same for all controllers of a cluster, by the names of the configuration file."""
    values: dict[str, object] = {
        "zookeeper.connect": ",".join(sorted(settings.zookeeper.connect.split(","))),
        "retire.replication.factor": settings.retire_replication_factor,
        "max.broker.partitions": settings.max_broker_partitions,
        "topic.policy.class": settings.topic_policy_class,
        "reason.required": settings.reason_required,
        "review.required": settings.review_required,
        "authentication.required": settings.authentication.required,
        "authentication.kafka.mechanism": settings.authentication.kafka_mechanism,
        "authorization.super.users": _digest(settings.authorization.super_users),
        "authorization.allow.everyone.if.no.acl.found": settings.authorization.allow_everyone_if_no_acl_found,
        "change.drain.timeout.ms": round(1000 * settings.timing.drain),
        "change.closing.timeout.ms": round(1000 * settings.timing.closing),
        "reassign.max.moves.per.broker": settings.reassign.max_moves_per_broker,
        "reassign.max.moves": settings.reassign.max_moves,
        "reassign.broker.timeout.ms": round(1000 * settings.reassign.broker_timeout),
        "autoscale": _digest([repr(settings.autoscale)]),
        "healing": _digest([repr(settings.healing)]),
    }
    return {name: "none" if value is None else str(value) for name, value in values.items()}


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:12]
