"""Finding the ledgers of a writer with no rights beyond those that a writer needs."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, Origin, entries_of, ledgers_of
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.servers import TIMEOUT, create_topic, unique_name


def test_a_writer_finds_its_ledgers_and_no_others(secure_cluster: LocalCluster) -> None:
    as_admin, as_alice = secure_cluster.kafka_properties(), secure_cluster.kafka_properties("alice")
    admin = AdminClient({**as_admin, "log_level": 3})
    topics = [unique_name("ledgers") for _ in range(2)]
    for created in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        created.result(TIMEOUT)
    prefix = f"ordered:{topics[0]}:"
    Acls(admin).add(
        acl("User:alice", "WRITE", "TOPIC", topics[0]),
        acl("User:alice", "READ", "TOPIC", topics[0]),
        acl("User:alice", "WRITE", "TRANSACTIONAL_ID", prefix, prefixed=True),
        acl("User:alice", "READ", "GROUP", prefix, prefixed=True),
    )
    entry = LedgerEntry(3, Fingerprint(2, 5), Origin("query", "run", "execution"))
    ledgers = [WriterTask(topic, "w", task) for topic in topics for task in (0, 7)]
    for ledger in (*ledgers, WriterTask(topics[0], "other", 0)):
        commit(as_admin, ledger, entry)
    alice = Connection(as_alice, secure_cluster.controller_url)
    assert ledgers_of(alice, "w", TIMEOUT) == set(ledgers[:2]), "of the topic that she may write"
    assert entries_of(alice, ledgers[:2], TIMEOUT) == dict.fromkeys(ledgers[:2], entry)
    everybody = Connection(as_admin, secure_cluster.controller_url)
    assert ledgers_of(everybody, "w", TIMEOUT) == set(ledgers)
    assert ledgers_of(everybody, "nobody", TIMEOUT) == frozenset()


@pytest.mark.long
def test_ledgers_are_found_while_a_broker_dies(three_brokers: LocalCluster) -> None:
    topic = create_topic(three_brokers.bootstrap_servers, unique_name("ledgers"))
    entry = LedgerEntry(3, Fingerprint(2, 5))
    ledgers = [WriterTask(topic, "w", task) for task in range(6)]
    for ledger in ledgers:
        commit({"bootstrap.servers": three_brokers.bootstrap_servers}, ledger, entry)
    connection = Connection(
        {"bootstrap.servers": three_brokers.bootstrap_servers}, three_brokers.controller_url
    )
    three_brokers.kill("broker-3")
    try:
        assert ledgers_of(connection, "w", 2 * TIMEOUT) == set(ledgers)
        assert entries_of(connection, ledgers, 2 * TIMEOUT) == dict.fromkeys(ledgers, entry)
    finally:
        three_brokers.start("broker-3")


def commit(properties: dict[str, str], task: WriterTask, entry: LedgerEntry) -> None:
    """Commit an entry, and nothing else."""
    producer = Producer({**properties, "transactional.id": task.name, "log_level": 3})
    ledger = Consumer({**properties, "group.id": task.name, "log_level": 3})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    offset = TopicPartition(task.topic, 0, entry.sequence, entry.metadata())
    producer.send_offsets_to_transaction([offset], ledger.consumer_group_metadata(), TIMEOUT)
    producer.commit_transaction(TIMEOUT)
    ledger.close()
