"""``topic.policy.class``: an operator's class that may refuse requests.

It replaces Kafka's ``CreateTopicPolicy`` (KIP-108) and, as in KIP-179, sees alterations and deletions too::

    from spark_ordered_kafka import PolicyViolationError

    class AtMost100Partitions:
        def validate(self, request):
            if request.partitions > 100:
                raise PolicyViolationError(f"{request.topic}: at most 100 partitions, not {request.partitions}")
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Literal, Protocol

from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.errors import ConfigError, ErrorCode, PolicyViolationError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs

_KEY = "topic.policy.class"
_log = logging.getLogger(__name__)

Operation = Literal[
    "create",
    "partition_count",
    "replication_factor",
    "reassignment",
    "ordered_delivery",
    "config",
    "delete",
    "release",
]


@dataclass(frozen=True)
class TopicRequest:
    """The topic as it would be after a request; for a deletion or release, as it is before.

    Attributes:
        operation: the kind of request. A request for several operations gets one call of ``validate`` for each.
            ``reassignment``: other brokers or log directories, as many replicas as before; of any topic of the cluster.
        topic: its name.
        partitions: the partition count that writers use (undeleted partitions).
        replication_factor: replicas of each partition; 0 for a managed topic that Kafka no longer has.
        assignments: partition -> broker ids, preferred leader first, if the request gives them; else None.
        configs: Kafka's configuration of the topic by name, without the brokers' defaults.
        ordered_delivery: whether every key is kept in order.
        principal: the caller, in Kafka's form: ``User:alice``.
        validate_only: whether the request is only to be checked.
    """

    operation: Operation
    topic: str
    partitions: int
    replication_factor: int
    assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]
    ordered_delivery: bool
    principal: str
    validate_only: bool


class TopicPolicy(Protocol):
    """Interface of the named class; the controller creates one object at its start, without arguments."""

    def validate(self, request: TopicRequest) -> None:
        """Return to let the request pass; raise PolicyViolationError with the reason to refuse it.

        Called after all other checks and before anything is done, by one thread at a time. The request waits for it.
        """


class PolicyCheck:
    """The policy in force; ``policy`` None accepts everything. Thread-safe."""

    def __init__(self, policy: TopicPolicy | None = None) -> None:
        self._policy = policy
        self._lock = threading.Lock()

    @property
    def configured(self) -> bool:
        """Whether there is a policy."""
        return self._policy is not None

    def validate(self, request: Callable[[], TopicRequest]) -> None:
        """Call the policy with a request; ``request`` is built only if a policy is configured.

        Raises RequestError: POLICY_VIOLATION with the policy's reason; UNKNOWN_SERVER_ERROR when the policy itself fails.
        """
        if self._policy is None:
            return
        asked = request()
        name = _name(type(self._policy))
        try:
            with self._lock:
                self._policy.validate(asked)
        except PolicyViolationError as error:
            reason = str(error) or f"refused by {name}, which gives no reason"
            raise RequestError(ErrorCode.POLICY_VIOLATION, reason) from error
        except Exception as error:
            _log.exception("topic %s: the policy %s failed", asked.topic, name)
            raise RequestError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"nothing was done: the policy {name} ({_KEY}) failed with {type(error).__name__}: {error}",
            ) from error


class TopicChecks:
    """Asks the policy about requests for topics that there are. ``timeout`` (seconds) is for each call to Kafka."""

    def __init__(self, policy: PolicyCheck, admin: KafkaAdmin, timeout: float) -> None:
        self._policy = policy
        self._admin = admin
        self._configs = TopicConfigs(admin.requests, timeout)

    @property
    def configured(self) -> bool:
        """Whether there is a policy."""
        return self._policy.configured

    def check(
        self,
        topic: str,
        record: TopicRecord | None,
        operation: Operation,
        *,
        principal: str,
        validate_only: bool,
        altered: Callable[[TopicRequest], TopicRequest] = lambda now: now,
    ) -> None:
        """Raises RequestError as :meth:`PolicyCheck.validate`, and UnavailableError when Kafka does not describe the topic.

        ``altered`` gives the topic as it would be by what it is. Of one that is not under management (``record`` is None), all
        values are Kafka's, and ``ordered_delivery`` is False.
        """

        def request() -> TopicRequest:
            description = self._admin.describe_topics([topic]).get(topic)
            gone = description is None or (record is not None and description.topic_id != record.topic_id)
            existing = 0 if description is None else len(description.partitions)
            now = TopicRequest(
                operation=operation,
                topic=topic,
                partitions=existing if record is None else record.undeleted_partition_count,
                replication_factor=0
                if description is None or gone
                else len(description.partitions[0].replicas),
                assignments=None,
                configs=MappingProxyType({} if gone else self._configs.describe(topic, defaults=False)),
                ordered_delivery=record is not None and record.ordered_delivery,
                principal=principal,
                validate_only=validate_only,
            )
            return altered(now)

        self._policy.validate(request)


def frozen(assignments: Mapping[int, Sequence[int]] | None) -> Mapping[int, Sequence[int]] | None:
    """A request's assignments as a policy gets them, which it cannot change."""
    if assignments is None:
        return None
    return MappingProxyType({partition: tuple(replicas) for partition, replicas in assignments.items()})


def load_policy(name: str | None) -> PolicyCheck:
    """The policy of the class ``name``: ``module.Class`` or ``module:Class``, importable by the controller's Python.

    Raises ConfigError with what is wrong with it.
    """
    if name is None:
        return PolicyCheck()
    module_name, separator, class_name = name.rpartition(":" if ":" in name else ".")
    if not separator or not module_name or not class_name:
        raise ConfigError(_KEY, name, "module.Class is needed, for example mycompany.policies.TopicPolicy")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConfigError(
            _KEY,
            name,
            f"module {module_name} cannot be imported ({type(error).__name__}: {error}); it must be installed, or its "
            "directory be in PYTHONPATH",
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        what = "has no" if found is None else "has something that is not a class as"
        raise ConfigError(_KEY, name, f"module {module_name} {what} {class_name}")
    if not callable(getattr(found, "validate", None)):
        raise ConfigError(_KEY, name, f"{class_name} has no method validate(request)")
    try:
        policy: TopicPolicy = found()
    except Exception as error:
        raise ConfigError(
            _KEY, name, f"{class_name}() failed with {type(error).__name__}: {error}"
        ) from error
    _log.info("requests about topics are checked by %s", _name(found))
    return PolicyCheck(policy)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
