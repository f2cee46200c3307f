"""Adoption: takes a topic with data under management, if its records fit the named hash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.creation import check_hash, check_name, register
from spark_ordered_kafka.controller.topics.kafka_state import agreed, check_not_managed, identity
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.sampling import KeyedRecord, Sample, sample_records, spread
from spark_ordered_kafka.kafka.values import PROPAGATION, TopicDescription
from spark_ordered_kafka.ordering.hashing import key_hashes

# With the queries to Kafka and ZooKeeper below the client's timeout.
_SAMPLING_TIMEOUT = 4.0

# Partitions whose log start is read: enough to find some that still hold records.
_CANDIDATES = 1000

# Fewer records than these may fit a wrong hash by chance.
_MIN_JUDGED = 10


@dataclass(frozen=True)
class TopicAdopter:
    """Takes existing topics under management.

    ``end_namesake`` ends what is managed under a name, of which Kafka has nothing any more, and leaves alone what it has under
    that name now; ``clock`` gives seconds since the epoch; ``registering`` is held while a topic is taken under management.
    """

    admin: KafkaAdmin
    znodes: Znodes
    end_namesake: Callable[[str], None]
    clock: Callable[[], float]
    registering: threading.Lock

    def adopt(self, topic: str, request: schemas.AdoptTopicRequest) -> schemas.TopicResult:
        """Take a Kafka topic under management: its partitions and records become layout epoch 0.

        Replaces the record of a namesake that was deleted outside of this system.

        Raises:
            RequestError: the topic does not exist, is internal or managed already, or its records do not fit the hash (with
                figures), unless forced.
            UnavailableError: a partition has no leader, or no record could be read in time.
        """
        check_name(topic)
        hash_name = check_hash(request.hash)
        check_not_managed(self.admin, self.znodes, topic)
        judged = self._describe(topic)
        if not request.force:
            self._judge(judged, hash_name)
        if request.validate_only:
            return schemas.TopicResult(topic=topic)
        with self.registering:
            check_not_managed(self.admin, self.znodes, topic)
            description = self._describe(topic)
            if identity(description) != identity(judged):
                raise UnavailableError(
                    f"topic {topic!r} was recreated or got partitions while it was checked; send the request again"
                )
            self.end_namesake(topic)
            register(
                self.znodes,
                description,
                {row.partition: row.leader_epoch for row in description.partitions},
                hash_name,
                ordered_delivery=True,
                now=self.clock(),
            )
        return schemas.TopicResult(topic=topic)

    def _describe(self, topic: str) -> TopicDescription:
        late = f"the brokers do not agree on topic {topic!r} and its partitions yet; send the request again"
        description = agreed(self.admin, topic, PROPAGATION, late)
        if description is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} does not exist in Kafka: create it (ordered-kafka topics create)",
            )
        if description.internal:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic has the value {topic!r}: it is internal to Kafka"
            )
        leaderless = [row.partition for row in description.partitions if row.leader < 0]
        if leaderless:
            raise UnavailableError(
                f"partition {leaderless[0]} of topic {topic!r} has no leader ({len(leaderless)} of "
                f"{len(description.partitions)} partitions); bring its brokers back and send the request again"
            )
        return description

    def _judge(self, description: TopicDescription, hash_name: HashName) -> None:
        count = len(description.partitions)
        if count == 1:
            return  # every hash puts every key there
        topic = description.topic
        ends = self.admin.log_ends(topic, range(count))
        candidates = spread([p for p in range(count) if ends[p].offset > 0], _CANDIDATES)
        starts = self.admin.log_starts(topic, candidates)
        logs = {partition: (starts[partition], ends[partition].offset) for partition in candidates}
        sample = sample_records(self.admin.requests.properties, topic, logs, timeout=_SAMPLING_TIMEOUT)
        check_fit(topic, hash_name, sample, count)


@dataclass(frozen=True)
class Fit:
    """How many of the sampled records with a usable key fit a hash. ``misrouted`` is a record that does not."""

    hash: HashName
    judged: int
    fitting: int
    newest_judged: int
    newest_fitting: int
    misrouted: KeyedRecord | None
    belongs_to: int | None


def fit_of(hash_name: HashName, records: Sequence[KeyedRecord], count: int) -> Fit:
    """Judge the records under ``count`` partitions."""
    # librdkafka's consistent_random, its default, sends an empty key anywhere.
    judged = [record for record in records if hash_name != "crc32" or record.key != b""]
    right = key_hashes(hash_name, [record.key for record in judged]) % np.uint32(count)
    fits = right == np.array([record.partition for record in judged], dtype=np.uint32)
    newest = np.array([record.newest for record in judged], dtype=bool)
    misrouted = np.flatnonzero(~fits)
    first = None if len(misrouted) == 0 else int(misrouted[0])
    return Fit(
        hash=hash_name,
        judged=len(judged),
        fitting=int(fits.sum()),
        newest_judged=int(newest.sum()),
        newest_fitting=int((fits & newest).sum()),
        misrouted=None if first is None else judged[first],
        belongs_to=None if first is None else int(right[first]),
    )


def check_fit(topic: str, hash_name: HashName, sample: Sample, count: int) -> None:
    """Check that a sample of a topic of ``count`` partitions fits a hash.

    Raises:
        RequestError: INVALID_REQUEST with the figures of every hash: some records lie elsewhere.
        UnavailableError: no record was found in time.
    """
    if not sample.records and not sample.complete:
        raise UnavailableError(
            f"no record with a key was read from topic {topic!r} within {_SAMPLING_TIMEOUT:g} s, so it is not known "
            f"whether {hash_name} fits; send the request again, or use force"
        )
    fits = {name: fit_of(name, sample.records, count) for name in get_args(HashName)}
    fit = fits[hash_name]
    if fit.misrouted is None:
        return
    figures = ", ".join(f"{one.hash} {one.fitting} of {one.judged}" for one in fits.values())
    raise invalid_request(
        f"hash has the value {hash_name!r}, which does not fit topic {topic!r}: of the sampled records with a key, under "
        f"{count} partitions, lie where the hash puts them: {figures}; offset {fit.misrouted.offset} of partition "
        f"{fit.misrouted.partition}, for example, has a key of partition {fit.belongs_to}. {_advice(fits)}; force "
        "adopts the topic nevertheless, and readers then report records that lie elsewhere as misrouted"
    )


def _advice(fits: dict[HashName, Fit]) -> str:
    fitting = [one.hash for one in fits.values() if one.judged > 0 and one.misrouted is None]
    if fitting:
        return f"What fits is {' or '.join(fitting)}"
    recent = [one.hash for one in fits.values() if _MIN_JUDGED <= one.newest_judged == one.newest_fitting]
    if recent:
        return (
            f"No hash fits all, but {' or '.join(recent)} all that was sampled near the ends of the logs: the topic had "
            "another partition count before, or another producer"
        )
    return "No hash fits all: its producers choose partitions in another way, or in several ways"
