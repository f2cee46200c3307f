"""A topic of the secured cluster that alice may write and bob may read, each with no right beyond what docs/security.md says."""

from __future__ import annotations

from confluent_kafka.admin import AclBinding

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.secured import credentials
from tests.servers import await_true, unique_name

WRITER, READER = "alice", "bob"


class Granted:
    """``rights`` by what they are for. ``group`` is the reader's."""

    def __init__(self, cluster: LocalCluster, acls: Acls, prefix: str) -> None:
        self._cluster = cluster
        self.topic = unique_name(prefix)
        self.group = f"{self.topic}-readers"
        with self._controller("admin") as controller:
            controller.create_topic(CreateTopicRequest(topic=self.topic, partitions=2))
        ledger = f"ordered:{self.topic}:"
        self.rights: dict[str, AclBinding] = {
            "write": acl(f"User:{WRITER}", "WRITE", "TOPIC", self.topic),
            # Kafka wants it for the offsets of the ledger.
            "read what is written": acl(f"User:{WRITER}", "READ", "TOPIC", self.topic),
            "transactions": acl(f"User:{WRITER}", "WRITE", "TRANSACTIONAL_ID", ledger, prefixed=True),
            "ledger": acl(f"User:{WRITER}", "READ", "GROUP", ledger, prefixed=True),
            "read": acl(f"User:{READER}", "READ", "TOPIC", self.topic),
            "group": acl(f"User:{READER}", "READ", "GROUP", self.group, prefixed=True),
        }
        acls.add(*self.rights.values())
        for user in (WRITER, READER):
            with self._controller(user) as controller:

                def is_described(controller: ControllerClient = controller) -> bool:
                    return any(row.topic == self.topic for row in controller.topics().topics)

                await_true(is_described, f"{user} may describe {self.topic}")

    def conf(self, user: str, **more: str) -> dict[str, str]:
        """The configuration of a plain client; in the names of ``more`` an underscore stands for a dot."""
        own = {**self._cluster.kafka_properties(user), **self._cluster.controller_options(user)}
        return own | {name.replace("_", "."): value for name, value in more.items()}

    def _controller(self, user: str) -> ControllerClient:
        return ControllerClient(self._cluster.controller_url, credentials=credentials(self._cluster, user))
