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


_CODES: Mapping[Kind, tuple[int, ...]] = {
    Kind.RETRIABLE: (
        KafkaError._TRANSPORT,
        KafkaError._FAIL,
        KafkaError._RESOLVE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        # A request that waited for a broker which left the metadata, as a killed one does (librdkafka 2.11).
        KafkaError._DESTROY_BROKER,
        KafkaError._DESTROY,
        # A broker that stops in the middle of a handshake; librdkafka retries it, too. Wrong certificates show at start.
        KafkaError._SSL,
        KafkaError._NODE_UPDATE,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        # Of the admin client: no partition of a request has a leader, as while a broker starts.
        KafkaError._NOENT,
        KafkaError._RETRY,
        KafkaError._STATE,
        KafkaError._IN_PROGRESS,
        KafkaError._PREV_IN_PROGRESS,
        KafkaError._OUTDATED,
        KafkaError._INTR,
        KafkaError._PARTIAL,
        # The end of a fetched batch that was cut off: the next fetch has it whole.
        KafkaError._UNDERFLOW,
        KafkaError._ISR_INSUFF,
        KafkaError._QUEUE_FULL,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        # Newer than librdkafka's metadata.
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.INVALID_MSG,
        KafkaError.LEADER_NOT_AVAILABLE,
        # A leader that has moved or come back; librdkafka marks only a transaction's errors as retriable itself.
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.REBOOTSTRAP_REQUIRED,
        KafkaError.NOT_CONTROLLER,
        KafkaError.STALE_CTRL_EPOCH,
        KafkaError.STALE_BROKER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNRELEASED_INSTANCE_ID,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.SHARE_SESSION_NOT_FOUND,
        KafkaError.INVALID_SHARE_SESSION_EPOCH,
        KafkaError.SHARE_SESSION_LIMIT_REACHED,
    ),
    Kind.FENCED: (
        # Of an instance that has been fenced before: its first error said so, a fresh instance says it again if it
        # was another one.
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.TRANSACTION_ABORTABLE,
    ),
    Kind.REBALANCED: (
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.MEMBER_ID_REQUIRED,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    ),
    Kind.LOSS: (
        KafkaError._AUTO_OFFSET_RESET,
        # With a changed leader librdkafka compares leader epochs itself (KIP-320).
        KafkaError._LOG_TRUNCATION,
        KafkaError.OFFSET_OUT_OF_RANGE,
    ),
    Kind.DATA: (
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._KEY_SERIALIZATION,
        KafkaError._VALUE_SERIALIZATION,
        KafkaError._KEY_DESERIALIZATION,
        KafkaError._VALUE_DESERIALIZATION,
        KafkaError._INVALID_DIFFERENT_RECORD,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.INVALID_COMMIT_OFFSET_SIZE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_RECORD_STATE,
    ),
    Kind.CONFIGURATION: (
        KafkaError._INVALID_ARG,
        KafkaError._AUTHENTICATION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError._NOT_CONFIGURED,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNKNOWN_PROTOCOL,
        KafkaError._FS,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    ),
    Kind.REFUSED: (
        # The broker itself does not know what failed; Java's clients do not try it again either.
        KafkaError.UNKNOWN,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SECURITY_DISABLED,
        KafkaError.OPERATION_NOT_ATTEMPTED,
        KafkaError.LOG_DIR_NOT_FOUND,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.REASSIGNMENT_IN_PROGRESS,
        KafkaError.DELEGATION_TOKEN_AUTH_DISABLED,
        KafkaError.DELEGATION_TOKEN_NOT_FOUND,
        KafkaError.DELEGATION_TOKEN_OWNER_MISMATCH,
        KafkaError.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_EXPIRED,
        KafkaError.INVALID_PRINCIPAL_TYPE,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.TOPIC_DELETION_DISABLED,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.ELECTION_NOT_NEEDED,
        KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.RESOURCE_NOT_FOUND,
        KafkaError.DUPLICATE_RESOURCE,
        KafkaError.UNACCEPTABLE_CREDENTIAL,
        KafkaError.INCONSISTENT_VOTER_SET,
        KafkaError.INVALID_UPDATE_VERSION,
        KafkaError.FEATURE_UPDATE_FAILED,
        KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.MISMATCHED_ENDPOINT_TYPE,
        KafkaError.UNSUPPORTED_ENDPOINT_TYPE,
        KafkaError.UNKNOWN_CONTROLLER_ID,
        KafkaError.UNKNOWN_SUBSCRIPTION_ID,
        KafkaError.TELEMETRY_TOO_LARGE,
        KafkaError.INVALID_REGISTRATION,
        KafkaError.FENCED_STATE_EPOCH,
        KafkaError.INVALID_VOTER_KEY,
        KafkaError.DUPLICATE_VOTER,
        KafkaError.VOTER_NOT_FOUND,
        KafkaError.INVALID_REGULAR_EXPRESSION,
        KafkaError.STREAMS_INVALID_TOPOLOGY,
        KafkaError.STREAMS_INVALID_TOPOLOGY_EPOCH,
        KafkaError.STREAMS_TOPOLOGY_FENCED,
    ),
    Kind.OURS: (
        KafkaError.NO_ERROR,
        KafkaError._NOOP,
        KafkaError._PARTITION_EOF,
        KafkaError._ASSIGN_PARTITIONS,
        KafkaError._REVOKE_PARTITIONS,
        KafkaError._APPLICATION,
        KafkaError._CONFLICT,
        KafkaError._EXISTING_SUBSCRIPTION,
        KafkaError._INVALID_TYPE,
        KafkaError._NO_OFFSET,
        KafkaError._READ_ONLY,
        KafkaError._UNKNOWN_GROUP,
    ),
    Kind.FATAL: (
        KafkaError._CRIT_SYS_RESOURCE,
        KafkaError._GAPLESS_GUARANTEE,
        KafkaError._INCONSISTENT,
    ),
}

KINDS: Mapping[int, Kind] = {code: kind for kind, codes in _CODES.items() for code in codes}
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
