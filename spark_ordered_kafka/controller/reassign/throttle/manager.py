"""Sets throttles of requests in Kafka's configuration, and restores the former values.

``/admin/reassign_partitions_throttles`` records each replaced value before Kafka is asked to replace it;
:mod:`~spark_ordered_kafka.controller.reassign.throttle.policy` decides the next step.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    LOG_DIRS_RATE,
    RATES,
    REPLICAS,
    Found,
    Key,
    Need,
    Step,
    ThrottlesRecord,
    Wanted,
    advance,
    unlisted,
    wanted,
)
from spark_ordered_kafka.controller.reassign.throttle.unread import both, kept
from spark_ordered_kafka.controller.state.reassignments import MAX_BYTES
from spark_ordered_kafka.controller.zk.records import dump, owned, parse
from spark_ordered_kafka.controller.zk.session import ROOT, Session
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PROPAGATION, PartitionId

THROTTLES = f"{ROOT}/admin/reassign_partitions_throttles"
# While a list changes, both the old and the new one are recorded: an addition must leave room for that.
_MAX_ADDED = MAX_BYTES // 2
# Rounds of setting and reading values; the third is for changes that failed at first.
_ROUNDS = 3
_POLL = 0.02
_LOOK_INTERVAL = 1.0
# Share of the time for checks whether values have changed, unless the pause between checks would exceed the maximum.
_LOOK_SHARE = 0.05
_MAX_LOOK_INTERVAL = 30.0
# A broker that hangs must not delay others for long until Kafka fences it.
_BROKER_TIMEOUT = 5.0

# Errors of brokers that are down or hang: no moves wait for their throttles, which are set when they answer.
_AWAY = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Asked:
    """The throttles of a request and its partitions, which only become fewer; ``begun``: those that wait no more."""

    rates: tuple[int | None, int | None]
    tps: frozenset[PartitionId]
    begun: frozenset[PartitionId]

    def is_within(self, other: _Asked) -> bool:
        return self.rates == other.rates and self.tps <= other.tps


@dataclass(frozen=True)
class _LastLook:
    """The result of the last check, by the controller of ``epoch``; ``unlisted``: moves that no list has yet."""

    epoch: int
    asked: Mapping[int, _Asked]
    unlisted: Mapping[int, frozenset[PartitionId]]
    step: Step
    warnings: tuple[str, ...]
    next_look: float


class Throttles:
    """Sets the throttles that requests need, and restores former values afterwards. For one thread at a time.

    Former values of brokers and topics are restored exactly, and values that other tools set meanwhile are left alone. Kafka
    has no compare-and-set for configuration: a value that another tool sets between read and change is overwritten.

    Args:
        timeout: seconds for each call to Kafka.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        session: Session,
        admin: KafkaAdmin,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._topics = TopicConfigs(admin.requests, timeout)
        self._brokers = BrokerConfigs(admin.requests, min(timeout, _BROKER_TIMEOUT))
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._log_dirs = LogDirs(admin.requests, timeout=min(timeout, _BROKER_TIMEOUT))
        self._clock = clock
        self._last: _LastLook | None = None
        # Recently replaced values, and when: brokers may still show them for a moment.
        self._replaced: dict[Key, tuple[frozenset[str | None], float]] = {}
        self._unfinished = False
        self._refused: frozenset[int] = frozenset()

    @property
    def unfinished(self) -> bool:
        """Whether a change could not be made yet (a broker is down, Kafka refused, a request cannot be read).

        Then call :meth:`reconcile` again about every second, also without active requests.
        """
        return self._unfinished

    @property
    def refused(self) -> Collection[int]:
        """Requests of which Kafka has refused a throttle, as of the last :meth:`reconcile` that returned."""
        return self._refused

    def reconcile(
        self, needs: Mapping[int, Need], stop: threading.Event, *, unread: bool = False
    ) -> list[str]:
        """Set the throttles that active requests (by id) need, and restore all others.

        ``unread``: there are requests that cannot be read. What they may have set stays as long as Kafka moves such partitions.

        Idempotent. Call it often, and before Kafka is asked to begin moves, with these as begun and all others of a request
        that have not ended. It asks Kafka when requests or rates have changed or a move has begun that is in no list yet
        (D-371), and otherwise every second, or less often with many topics.
        Without needs it restores what any controller has replaced, and removes the record. It returns soon after ``stop``
        is set.

        Returns:
            Warnings: brokers that do not answer, values that another tool has changed, errors of Kafka. They stay the same
            while nothing changes.

        Raises:
            DeposedError: this process is not the controller.
            RequestError: too many values to be recorded (INVALID_REQUEST), or topics may not be described; nothing was
                changed for them.
            UnavailableError: ZooKeeper or Kafka does not answer; changes that have begun are in the record.
        """
        epoch, _ = self._session.guard()
        asked = {request: limits for request, need in needs.items() if (limits := _asked(need)) is not None}
        last = self._last
        if last is not None and last.epoch == epoch and self._holds(last, asked):
            return list(last.warnings)
        self._unfinished = True
        self._last = None
        started = self._clock()
        step, warnings, lacking = self._carry_out(wanted(needs), stop, unread=unread)
        self._refused = frozenset(
            request for request, need in needs.items() if lacking and lacking & wanted({request: need}).keys()
        )
        now = self._clock()
        if not stop.is_set():
            interval = max(_LOOK_INTERVAL, min((now - started) / _LOOK_SHARE, _MAX_LOOK_INTERVAL))
            late = {request: unlisted(need) for request, need in needs.items()}
            self._last = _LastLook(epoch, asked, late, step, warnings, now + interval)
            # What a request that cannot be read may need is restored once Kafka has done it.
            self._unfinished = bool(step.changes or step.absent or (unread and step.record.held()))
        return list(warnings)

    def _holds(self, last: _LastLook, asked: Mapping[int, _Asked]) -> bool:
        """Whether the last check covers these requests, and the next one is not due yet."""
        if not asked and not last.step.record.held():
            return True
        if self._clock() >= last.next_look or asked.keys() != last.asked.keys():
            return False
        return all(
            limits.is_within(last.asked[request]) and not limits.begun & last.unlisted[request]
            for request, limits in asked.items()
        )

    def _carry_out(
        self, wishes: Wanted, stop: threading.Event, *, unread: bool
    ) -> tuple[Step, tuple[str, ...], frozenset[Key]]:
        """The last step, the warnings, and the values that Kafka has refused."""
        read = self._session.read(THROTTLES)
        record = ThrottlesRecord()
        if read is not None:
            record = owned(parse(ThrottlesRecord, read[0], THROTTLES), THROTTLES)
        version = None if read is None else read[1]
        if unread and record.held():
            wishes = both(wishes, self._kept(record))
        refused: dict[Key, RequestError] = {}
        for _ in range(_ROUNDS):
            found, errors = self._look(record.held().keys() | wishes.keys(), stop)
            step = advance(record, wishes, found)
            if step.record != record:
                version = self._write(step.record, record, version)
            elif step.changes:
                self._session.verify()
            record = step.record
            changes = {key: value for key, value in step.changes.items() if key not in refused}
            if not changes or stop.is_set():
                break
            refused |= self._alter(changes, found)
        left = {key: refused[key] for key in step.changes if key in refused}
        failed = dict.fromkeys(f"{key.kind} {key.resource}: {error}" for key, error in left.items())
        lacking = {key for key, error in left.items() if error.code not in _AWAY}
        hidden = {broker for broker, error in errors.items() if error.code not in _AWAY}
        lacking |= {key for key in wishes if key.kind == "broker" and key.resource in hidden}
        absent = (
            f"broker {broker} does not answer ({errors[broker].name if broker in errors else 'UNKNOWN'}): its throttles are set, or put back, "
            "as soon as it does"
            for broker in step.absent
        )
        return step, (*absent, *step.warnings, *failed), frozenset(lacking)

    # -- ZooKeeper ----------------------------------------------------------------------------------------------

    def _write(self, new: ThrottlesRecord, old: ThrottlesRecord, version: int | None) -> int | None:
        """Store the record; the znode's new version, None: it is deleted."""
        transaction = self._session.transaction()
        if not new.held():
            transaction.delete(THROTTLES, version=version)
            self._session.commit(transaction, THROTTLES)
            return None
        data = dump(new)
        if len(data) > _MAX_ADDED and not new.held().keys() <= old.held().keys():
            raise invalid_request(
                f"what the throttles replace takes {len(data)} bytes, but at most {_MAX_ADDED} can be kept: move fewer "
                "topics at once, or without a throttle"
            )
        if version is None:
            transaction.create(THROTTLES, data)
        else:
            transaction.set_data(THROTTLES, data, version=version)
        self._session.commit(transaction, THROTTLES)
        return 0 if version is None else version + 1

    def _kept(self, record: ThrottlesRecord) -> Wanted:
        held = record.held()
        limited = [int(key.resource) for key in held if key.name == LOG_DIRS_RATE]
        answers = self._log_dirs.describe(limited) if limited else {}
        copying = [
            str(broker)
            for broker, answer in answers.items()
            if isinstance(answer, OrderedKafkaError)
            or any(row.is_future for directory in answer for row in directory.replicas)
        ]
        return kept(held, self._reassignments.all_ongoing(), copying)

    # -- Kafka --------------------------------------------------------------------------------------------------

    def _look(
        self, keys: Collection[Key], stop: threading.Event
    ) -> tuple[Found, dict[str, OrderedKafkaError]]:
        """The current values, and the errors of brokers that do not answer.

        A value that was just replaced is read again: the broker shows the new one soon, or another tool has set the old one.
        """
        values: dict[Key, str | None] = {}
        gone: set[str] = set()
        errors: dict[str, OrderedKafkaError] = {}
        open_ = set(keys)
        while open_:
            self._read_brokers({key.resource for key in open_ if key.kind == "broker"}, values, errors)
            self._read_topics({key.resource for key in open_ if key.kind == "topic"}, values, gone)
            open_ = {key for key in open_ if key in values and values[key] in self._lately_replaced(key)}
            if open_ and stop.wait(_POLL):
                break
        return Found(values, frozenset(gone)), errors

    def _read_brokers(
        self, brokers: Iterable[str], values: dict[Key, str | None], errors: dict[str, OrderedKafkaError]
    ) -> None:
        for broker, answer in self._brokers.describe_own([int(broker) for broker in brokers]).items():
            if isinstance(answer, OrderedKafkaError):
                errors[str(broker)] = answer
                _log.debug("the throttles of broker %d cannot be read: %s", broker, answer)
            else:
                values.update((Key("broker", str(broker), name), answer.get(name)) for name in RATES)

    def _read_topics(self, topics: set[str], values: dict[Key, str | None], gone: set[str]) -> None:
        found = self._topics.describe_many(topics) if topics else {}
        for topic, answer in found.items():
            values.update((Key("topic", topic, name), answer.get(name)) for name in REPLICAS)
        gone.update(topics - found.keys())

    def _lately_replaced(self, key: Key) -> frozenset[str | None]:
        values, asked_at = self._replaced.get(key, (frozenset(), 0.0))
        return values if self._clock() < asked_at + PROPAGATION else frozenset()

    def _alter(self, changes: Mapping[Key, str | None], found: Found) -> dict[Key, RequestError]:
        """Request the changes from Kafka; the errors of those that failed."""
        brokers: dict[int, dict[str, str | None]] = defaultdict(dict)
        topics: dict[str, dict[str, str | None]] = defaultdict(dict)
        for key, value in changes.items():
            if key.kind == "broker":
                brokers[int(key.resource)][key.name] = value
            else:
                topics[key.resource][key.name] = value
        _log.info("altering the throttles of brokers %s and of %d topics", sorted(brokers), len(topics))
        # Before the requests: one may succeed although its answer is lost.
        self._replaced = {key: row for key, row in self._replaced.items() if self._lately_replaced(key)}
        for key, value in changes.items():
            stale = self._lately_replaced(key) | {found.values[key]}
            self._replaced[key] = (stale - {value}, self._clock())
        failures: dict[tuple[str, str], RequestError] = {}
        if brokers:
            failures |= {("broker", str(b)): error for b, error in self._brokers.alter(brokers).items()}
        if topics:
            failures |= {("topic", topic): error for topic, error in self._topics.alter_many(topics).items()}
        refused = {}
        for key in changes:
            error = failures.get((key.kind, key.resource))
            if error is not None:
                self._replaced.pop(key)
                refused[key] = error
        return refused


def _asked(need: Need) -> _Asked | None:
    rates = (need.throttle, need.log_dir_throttle)
    if rates == (None, None) or not need.moves:
        return None
    begun = frozenset(move.tp for move in need.moves if move.state != "waiting")
    return _Asked(rates, frozenset(move.tp for move in need.moves), begun)
