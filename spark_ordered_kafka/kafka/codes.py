"""What each of librdkafka's error codes means for the caller: may the same call succeed later? (D-119)

Codes below zero are librdkafka's own, which it gives before or instead of a broker's answer; what they are used for is
taken from its source (2.16). The others are the brokers' (``org.apache.kafka.common.protocol.Errors``), of which those are
retriable that the Java client retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from confluent_kafka import KafkaError


class Kind(Enum):
    """Who can do something about an error."""

    RETRIABLE = "passes by itself: a broker or the network is away, or something is not known yet"
    FENCED = "ends a transaction, which a fresh producer may begin again"
    REBALANCED = "the group has given the consumer's partitions to others"
    LOSS = "the log does not hold the position"
    DATA = "a record or an answer cannot be read or written as it is"
    CONFIGURATION = "the user's: options, credentials, or brokers that lack a feature"
    REFUSED = "a broker has understood, and said no"
    OURS = "a mistake of the calling code, or an event that is no error"
    FATAL = "the client instance, or the process, cannot continue"


_CODES: Mapping[Kind, tuple[str, ...]] = {
    Kind.RETRIABLE: (
        "_TRANSPORT _FAIL _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT",
        # A request that waited for a broker which left the metadata, as a killed one does (librdkafka 2.11).
        "_DESTROY_BROKER",
        "_DESTROY",
        # A broker that stops in the middle of a handshake; librdkafka retries it, too. Wrong certificates show at start.
        "_SSL",
        "_NODE_UPDATE _UNKNOWN_BROKER _WAIT_COORD _WAIT_CACHE",
        # Of the admin client: no partition of a request has a leader, as while a broker starts.
        "_NOENT",
        "_RETRY _STATE _IN_PROGRESS _PREV_IN_PROGRESS _OUTDATED _INTR _PARTIAL",
        # The end of a fetched batch that was cut off: the next fetch has it whole.
        "_UNDERFLOW",
        "_ISR_INSUFF _QUEUE_FULL _PURGE_QUEUE _PURGE_INFLIGHT",
        # Newer than librdkafka's metadata.
        "_UNKNOWN_PARTITION _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID",
        "INVALID_MSG LEADER_NOT_AVAILABLE",
        # A leader that has moved or come back; librdkafka marks only a transaction's errors as retriable itself.
        "NOT_LEADER_FOR_PARTITION FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE REQUEST_TIMED_OUT",
        "BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION LISTENER_NOT_FOUND",
        "REBOOTSTRAP_REQUIRED NOT_CONTROLLER STALE_CTRL_EPOCH STALE_BROKER_EPOCH",
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR UNRELEASED_INSTANCE_ID",
        "UNSTABLE_OFFSET_COMMIT CONCURRENT_TRANSACTIONS NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH THROTTLING_QUOTA_EXCEEDED SHARE_SESSION_NOT_FOUND",
        "INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED",
        # Of a producer's instance: the log has lost what it had acknowledged, as by an unclean election, or records failed
        # whose reports say why. A fresh instance sends all of the transaction again (D-466).
        "OUT_OF_ORDER_SEQUENCE_NUMBER _INCONSISTENT _GAPLESS_GUARANTEE",
    ),
    Kind.FENCED: (
        # Of an instance that has been fenced before: its first error said so, a fresh instance says it again if it
        # was another one.
        "_FATAL",
        "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE UNKNOWN_PRODUCER_ID TRANSACTION_ABORTABLE",
    ),
    Kind.REBALANCED: (
        "_ASSIGNMENT_LOST _MAX_POLL_EXCEEDED ILLEGAL_GENERATION UNKNOWN_MEMBER_ID MEMBER_ID_REQUIRED",
        "REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH",
    ),
    Kind.LOSS: (
        "_AUTO_OFFSET_RESET",
        # With a changed leader librdkafka compares leader epochs itself (KIP-320).
        "_LOG_TRUNCATION",
        "OFFSET_OUT_OF_RANGE",
    ),
    Kind.DATA: (
        "_BAD_MSG _BAD_COMPRESSION _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION",
        "_VALUE_DESERIALIZATION _INVALID_DIFFERENT_RECORD INVALID_MSG_SIZE MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE INVALID_TIMESTAMP",
        "INVALID_RECORD INVALID_RECORD_STATE",
    ),
    Kind.CONFIGURATION: (
        "_INVALID_ARG _AUTHENTICATION _UNSUPPORTED_FEATURE _NOT_CONFIGURED _NOT_IMPLEMENTED",
        "_UNKNOWN_PROTOCOL _FS INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT",
        "UNSUPPORTED_SASL_MECHANISM",
    ),
    Kind.REFUSED: (
        # The broker itself does not know what failed; Java's clients do not try it again either.
        "UNKNOWN",
        "TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID",
        "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED",
        "ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION",
        "DUPLICATE_SEQUENCE_NUMBER TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "SECURITY_DISABLED OPERATION_NOT_ATTEMPTED LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED",
        "REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND",
        "DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE",
        "NON_EMPTY_GROUP GROUP_ID_NOT_FOUND TOPIC_DELETION_DISABLED UNSUPPORTED_COMPRESSION_TYPE",
        "GROUP_MAX_SIZE_REACHED ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS",
        "GROUP_SUBSCRIBED_TO_TOPIC RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL",
        "INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED",
        "PRINCIPAL_DESERIALIZATION_FAILURE UNSUPPORTED_ASSIGNOR MISMATCHED_ENDPOINT_TYPE",
        "UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE",
        "INVALID_REGISTRATION FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND",
        "INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH",
        "STREAMS_TOPOLOGY_FENCED",
    ),
    Kind.OURS: (
        "NO_ERROR _NOOP _PARTITION_EOF _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _APPLICATION _CONFLICT",
        "_EXISTING_SUBSCRIPTION _INVALID_TYPE _NO_OFFSET _READ_ONLY _UNKNOWN_GROUP",
    ),
    Kind.FATAL: ("_CRIT_SYS_RESOURCE",),
}
"""Names of attributes of KafkaError. A comment is about the line that follows it."""

KINDS: Mapping[int, Kind] = {
    getattr(KafkaError, name): kind
    for kind, lines in _CODES.items()
    for line in lines
    for name in line.split()
}
"""Every code of the librdkafka that this was written for."""

_BY_LIBRDKAFKA = frozenset({Kind.RETRIABLE, Kind.DATA, Kind.REFUSED, Kind.CONFIGURATION, Kind.OURS})


def kind_of(error: KafkaError) -> Kind:
    """What an error means. librdkafka may call one retriable that is not otherwise; a code of a newer version of it is
    retriable, too, unless librdkafka calls it fatal.
    """
    kind = KINDS.get(error.code())
    if kind is None:
        return Kind.FATAL if error.fatal() else Kind.RETRIABLE
    return Kind.RETRIABLE if error.retriable() and kind in _BY_LIBRDKAFKA else kind
