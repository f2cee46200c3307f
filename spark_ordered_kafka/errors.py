"""Every error of the package, under one root.

::

    OrderedKafkaError                 root; ``code``, ``name``, ``retriable``
    ├── ConfigError                   an option, field or argument is wrong (also a ValueError)
    │   └── ConfigErrors              several are
    ├── RequestError                  a request was refused, with an error code of the HTTP API
    │   └── ReviewPendingError        a request waits for a second principal; nothing was done yet
    ├── UnavailableError              a server did not answer in time (retriable)
    │   └── NoLayoutError             no controller answered a writer's request for the layout in time
    ├── LayoutChangingError           a partition change is closing: wait and ask again (retriable)
    ├── FencedError                   a partition change ended this writer's transaction (retriable)
    ├── RebalancedError               the group has given a consumer's partitions to others (retriable)
    ├── ClosedError                   a client is used after its end (also a RuntimeError)
    ├── DataLossError                 records a reader still needed are gone
    ├── MisroutedRecordError          a record lies in a partition its key does not belong to
    ├── PolicyViolationError          a topic policy refuses a request
    ├── ReplayMismatchError           a replayed Spark task has other rows than the first time
    ├── MigrationError                a checkpoint cannot go over to another source
    ├── TransitionError               a state machine was handed an event it has no row for
    ├── LocalClusterError             an embedded server did not start or stop
    └── MissingExtraError             a library of an extra of this package is not installed (also an ImportError)

Codes and names are Kafka's own where Kafka has them (``org.apache.kafka.common.protocol.Errors``); the numbers from 88
and 1001 on are this system's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ErrorCode(IntEnum):
    """Error codes of the controller's API; ``ErrorCode.X.name`` is the name Kafka prints."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    INVALID_TOPIC_EXCEPTION = 17
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    TOPIC_DELETION_DISABLED = 73
    NO_REASSIGNMENT_IN_PROGRESS = 85
    INVALID_RECORD = 87
    GUARD_RAILS = 88
    RESOURCE_NOT_FOUND = 91
    INVALID_PARTITION_METADATA = 1001
    PARTITION_CHANGE_IN_PROGRESS = 1002
    ACTIVE_FOREIGN_PRODUCERS = 1003
    LOG_TRUNCATED = 1004
    REVIEW_PENDING = 1005


_KNOWN_CODES = {int(code): code for code in ErrorCode}
_RETRIABLE = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_PARTITION_METADATA,
    }
)


class OrderedKafkaError(Exception):
    """Root of all errors of this package.

    ``code`` is an :class:`ErrorCode`; ``retriable`` is True when the same call may succeed later unchanged.
    """

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    @property
    def name(self) -> str:
        """Kafka's name of the code, e.g. ``INVALID_PARTITIONS``."""
        return self.code.name

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later unchanged."""
        return self.code in _RETRIABLE

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark carries errors between processes pickled; the default would call __init__ with the message alone.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[OrderedKafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> OrderedKafkaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(OrderedKafkaError, ValueError):
    """An option, field or argument is wrong: names it, shows the value, says what would be right."""

    code = ErrorCode.INVALID_CONFIG

    def __init__(self, option: str, value: object, expected: str) -> None:
        shown = "is missing" if value is None else f"has the value {value!r}"
        super().__init__(f"{option} {shown}: {expected}")
        self.option = option


class ConfigErrors(ConfigError):
    """Several options are wrong; ``errors`` has one for each, and the message a line."""

    def __init__(self, errors: tuple[ConfigError, ...]) -> None:
        lines = "".join(f"\n  {error}" for error in errors)
        OrderedKafkaError.__init__(self, f"{len(errors)} options are wrong:{lines}")
        self.option = ", ".join(error.option for error in errors)
        self.errors = errors


class RequestError(OrderedKafkaError):
    """A request to the controller (or by it, to Kafka) was refused; ``code`` says why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


def error_name(code: int) -> str:
    """The name of an error code; that of a later version has none here."""
    known = _KNOWN_CODES.get(code)
    return f"ERROR_{code}" if known is None else known.name


def refusal(code: int, name: str, message: str | None) -> RequestError:
    """The error of a controller's result; a code of a later version becomes UNKNOWN_SERVER_ERROR and keeps its message."""
    reason = message or "no reason given"
    known = _KNOWN_CODES.get(code)
    if known is None:
        return RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} ({code}): {reason}")
    return RequestError(known, reason)


def invalid_request(message: str) -> RequestError:
    """A request that is wrong in itself; ``message`` names the field, its value, and what would be right."""
    return RequestError(ErrorCode.INVALID_REQUEST, message)


class ReviewPendingError(RequestError):
    """Nothing was done yet: the request waits as ``review_id`` for a second principal who approves it."""

    def __init__(self, review_id: int) -> None:
        super().__init__(
            ErrorCode.REVIEW_PENDING,
            f"nothing was done yet: the request waits as review {review_id} until somebody else approves it "
            f"(ordered-kafka reviews approve {review_id})",
        )
        self.review_id = review_id


class UnavailableError(OrderedKafkaError):
    """A server (controller, broker, ZooKeeper) did not answer before the deadline."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NoLayoutError(UnavailableError):
    """No controller answered a writer's request for the layout of its topic in time."""


class LayoutChangingError(OrderedKafkaError):
    """The topic's partition change is closing; ``retry_after`` seconds later the layout is known."""

    code = ErrorCode.INVALID_PARTITION_METADATA

    def __init__(self, topic: str, retry_after: float) -> None:
        super().__init__(f"topic {topic!r} is changing its partition count; ask again in {retry_after:g} s")
        self.topic = topic
        self.retry_after = retry_after


class FencedError(OrderedKafkaError):
    """A partition change (or a successor with the same transactional id) ended this writer's transaction."""

    code = ErrorCode.INVALID_PARTITION_METADATA


class RebalancedError(OrderedKafkaError):
    """The group has given a consumer's partitions to others before their offsets were committed.

    What was processed since the last commit will be delivered again, perhaps to another member: continue to poll.
    """

    code = ErrorCode.ILLEGAL_GENERATION


class ClosedError(OrderedKafkaError, RuntimeError):
    """A client is used after it was closed, or after an error that ended it."""


class DataLossError(OrderedKafkaError):
    """Records that a reader still needed are gone (retention, truncation, recreated topic)."""

    code = ErrorCode.LOG_TRUNCATED


class MisroutedRecordError(OrderedKafkaError):
    """A record lies in a partition that its key does not belong to under the segment's layout."""

    code = ErrorCode.INVALID_PARTITION_METADATA

    @property
    def retriable(self) -> bool:
        return False


class PolicyViolationError(OrderedKafkaError):
    """Raised by a topic policy (``topic.policy.class``) to refuse a request; its message is the reason."""

    code = ErrorCode.POLICY_VIOLATION


class ReplayMismatchError(OrderedKafkaError):
    """A replayed micro-batch gives a task other rows than those it committed the first time, or is another write's."""


class MigrationError(OrderedKafkaError):
    """A checkpoint cannot go over to another source; the message has every reason."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(
            "the checkpoint cannot be migrated:" + "".join(f"\n  {reason}" for reason in reasons)
        )
        self.reasons = reasons


class TransitionError(OrderedKafkaError):
    """A state machine has no row for this event in this state: a bug, with the story that led there."""


class LocalClusterError(OrderedKafkaError):
    """An embedded ZooKeeper, Kafka or controller process did not start, stop or answer in time."""


class MissingExtraError(OrderedKafkaError, ImportError):  # type: ignore[misc] # `name` is Kafka's, as for all errors here
    """A library is missing that an extra of this package installs; the message has the command."""
