"""What librdkafka says of a transaction that has failed, as this package's errors."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Producer

from spark_ordered_kafka.errors import FencedError, OrderedKafkaError
from spark_ordered_kafka.kafka.attempts import failure_of
from spark_ordered_kafka.kafka.clients import translate


def first_error(producer: Producer, failure: KafkaException) -> KafkaException:
    """Why the open transaction takes no more, where ``failure`` says only that it does not (D-465).

    Not to be called in the handler of ``failure`` (D-120).
    """
    if failure.args[0].code() != KafkaError._STATE:
        return failure
    # It refuses this, too, and names the first error of a transaction that has failed.
    refusal = failure_of(producer.begin_transaction)
    if isinstance(refusal, KafkaException):
        error = refusal.args[0]
        return refusal if error.fatal() or error.txn_requires_abort() else failure
    return failure


def transaction_error(error: KafkaError, doing: str) -> OrderedKafkaError:
    """As :func:`translate`, but "unknown" is a fence, and what a group says of a former member a rebalance.

    When the end of a transaction meets the fence of its id, a broker of Kafka 4.3 answers UNKNOWN_SERVER_ERROR (it logs
    an IllegalStateException of ``TransactionMetadata.prepareTransitionTo``) and completes the fence. Whether
    the transaction was committed, the successor reads in the ledger.
    """
    if error.code() == KafkaError.UNKNOWN:
        return FencedError(f"while {doing}: {error.name()}: {error.str()}")
    return translate(error, doing)
