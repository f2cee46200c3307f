"""Decides on the partition counts of all topics again and again, at the leader, and requests what is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.automation.requests import OwnRequest, SendRequest, waiting_reason, waits
from spark_ordered_kafka.controller.autoscale.configuration import AutoscaleSettings
from spark_ordered_kafka.controller.autoscale.figures import AutoscaleFigures
from spark_ordered_kafka.controller.autoscale.load import Observation, utilizations
from spark_ordered_kafka.controller.autoscale.policy import Decision, State, decide
from spark_ordered_kafka.controller.autoscale.records import observation_view, remembered, stored
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.autoscale.sampling import Sample, Sampler, group_load, write_rates
from spark_ordered_kafka.controller.background import Background, every
from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.webhook import Webhook
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.autoscale import AutoscaleRecord, AutoscaleStore, DecisionEntry
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.reviews import Reviews
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.zk.records import UnreadableRecordError
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.updates import updated

PRINCIPAL = "User:autoscale"
"""The principal of the requests; it needs ALTER on a topic that is to be changed (D-292)."""

_log = logging.getLogger(__name__)
_KEPT = 20
_TIMEOUT_MS = 10_000


@dataclass
class _Topic:
    """What this process knows of a topic: ``observation`` of ``observed_at`` (seconds since the epoch) led to ``decision``."""

    topic_id: str
    state: State
    record: AutoscaleRecord
    observation: Observation | None = None
    observed_at: float = 0.0
    decision: DecisionEntry | None = None


@dataclass(eq=False)
class Autoscaler:
    """Runs in the thread of its ``background``, if any topic is to be observed.

    ``clock`` gives seconds since the epoch. Cool-down and budget are kept in ZooKeeper, so they hold across controllers;
    the times that a load must last begin anew. ``send`` gives None until the API has started; what is due waits for it.
    """

    settings: AutoscaleSettings
    sampler: Sampler
    znodes: Znodes
    store: AutoscaleStore
    reviews: Reviews
    audit: AuditLog
    webhook: Webhook
    figures: AutoscaleFigures
    clock: Callable[[], float]
    send: Callable[[], SendRequest | None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # guards _topics against view()
        self._topics: dict[str, _Topic] = {}
        self._sample: Sample | None = None
        self.background = Background(
            "autoscale",
            "automatic partition counts",
            every(self.settings.interval),
            self._decide_all,
            forget=self._forget,
            enabled=self.settings.enabled,
        )

    def view(self) -> schemas.AutoscaleList:
        """Every topic under management whose record can be read. Controllers that do not lead show what ZooKeeper has."""
        kept = self.store.all()
        rows = []
        for topic in self.znodes.topics():
            try:
                record = self.znodes.topic(topic)
            except UnreadableRecordError:
                continue  # the check of all topics logs it
            if record is None or record.deleting_since is not None:
                continue
            with self._lock:
                found = self._topics.get(topic)
                known = None if found is None else replace(found)
            # What this process has written may be newer than what was read before.
            own = kept.get(topic) if known is None else known.record
            own = None if own is None or own.topic_id != record.topic_id else own
            known = None if known is None or known.topic_id != record.topic_id else known
            rows.append(self._row(topic, record, own, known))
        return schemas.AutoscaleList(topics=rows)

    def _row(
        self, topic: str, record: TopicRecord, kept: AutoscaleRecord | None, known: _Topic | None
    ) -> schemas.AutoscaleTopic:
        rules = self.settings.of(topic)
        history = [] if kept is None else [view(schemas.AutoscaleDecision, one) for one in kept.decisions]
        decision = history[0] if history else None
        observation = None
        if known is not None and known.observation is not None and known.decision is not None:
            decision = view(schemas.AutoscaleDecision, known.decision)
            observation = observation_view(known.observation, rules, known.observed_at)
        changes = () if kept is None else kept.changes
        return schemas.AutoscaleTopic(
            topic=topic,
            mode=rules.mode,
            count=record.undeleted_partition_count,
            observation=observation,
            decision=decision,
            changes=[view(schemas.AutoscaleChange, one) for one in reversed(changes)],
            history=history,
        )

    # -- the thread ---------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._sample = None
        with self._lock:
            self._topics = {}
        self.figures.clear()

    def _decide_all(self, stop: threading.Event) -> None:
        records = self._managed()
        self._load_records(records)
        counts = {
            topic: record.undeleted_partition_count
            for topic, record in records.items()
            if self.settings.of(topic).mode != "off"
        }
        groups = {group for topic in counts for group in self.settings.of(topic).groups}
        before, self._sample = self._sample, self.sampler.sample(counts, groups)
        for topic in counts:
            if stop.is_set() or before is None:
                return
            self.background.attempt(
                topic,
                f"topic {topic}: no decision",
                partial(self._decide, topic, records[topic], before, self._sample),
            )

    def _managed(self) -> dict[str, TopicRecord]:
        found = {}
        for topic in self.znodes.topics():
            try:
                record = self.znodes.topic(topic)
            except UnreadableRecordError as error:
                self.background.complain(topic, f"topic {topic}: no decision: {error}")
                continue
            if record is not None and record.deleting_since is None and not record.is_newer:
                found[topic] = record
        return found

    def _load_records(self, records: Mapping[str, TopicRecord]) -> None:
        """Begin with topics that are new to this process, and forget those that have left management."""
        kept = self.store.all()
        for topic in kept.keys() - set(self.znodes.topics()):
            self.store.delete(topic)
        with self._lock:
            for topic in self._topics.keys() - records.keys():
                del self._topics[topic]
                self.figures.forget(topic)
            for topic, record in records.items():
                known = self._topics.get(topic)
                if known is None or known.topic_id != record.topic_id:
                    own = kept.get(topic)
                    if own is None or own.topic_id != record.topic_id:
                        own = AutoscaleRecord(topic_id=record.topic_id)
                    self._topics[topic] = _Topic(record.topic_id, remembered(own), own)

    def _decide(self, topic: str, record: TopicRecord, before: Sample, after: Sample) -> None:
        rules, known = self.settings.of(topic), self._topics[topic]
        observation = self._observed(topic, record, rules, known.record, before, after)
        if observation is None:
            return
        now = self.clock()
        decision, state = decide(rules, observation, known.state, now)
        if decision.load_driven and decision.held_by != "under_way":
            observation = self._with_hot_key(topic, rules, observation, after)
            decision, state = decide(rules, observation, known.state, now)
        with self._lock:
            known.state, known.observation, known.observed_at = state, observation, now
        self.figures.observed(topic, rules.mode, observation.count, decision.target)
        send = self.send()
        if decision.due and rules.mode == "act" and send is not None:
            self._act(topic, known, observation.count, decision, now, send)
        else:
            outcome = "none" if decision.action == "none" else "held" if decision.held_by else "proposed"
            entry = view(DecisionEntry, decision, at=now, count=observation.count, outcome=outcome)
            self._note(topic, known, entry)

    def _observed(
        self,
        topic: str,
        record: TopicRecord,
        rules: Rules,
        kept: AutoscaleRecord,
        before: Sample,
        after: Sample,
    ) -> Observation | None:
        count = record.undeleted_partition_count
        rates = write_rates(before, after, topic, count)
        if rates is None:
            return None
        loads = {group: group_load(before, after, topic, group, count) for group in rules.groups}
        under_way, decided_at = self._review_state(kept.review_id)
        if record.change is not None:
            under_way = f"change {record.change.id} is in progress"
        ended = None if record.last_change is None else record.last_change.finished_at
        return Observation(
            initial=record.initial_partition_count,
            count=count,
            bytes=rates[0],
            records=rates[1],
            groups={group: load for group, load in loads.items() if load is not None},
            under_way=under_way,
            last_change=max(filter(None, (ended, decided_at)), default=None),
            seconds=after.at - before.at,
        )

    def _review_state(self, review_id: int | None) -> tuple[str | None, float | None]:
        """What is under way, None: nothing is; and when the review was decided, or has expired."""
        if review_id is None:
            return None, None
        try:
            review, status = self.reviews.get(review_id)
        except RequestError:
            return None, None  # decided long ago, and deleted since
        if waits(status):
            return waiting_reason(review_id), None
        return None, review.expires_at if status == "expired" else review.decided_at

    def _with_hot_key(
        self, topic: str, rules: Rules, observation: Observation, sample: Sample
    ) -> Observation:
        parts = utilizations(observation, rules)
        busiest = max(range(observation.count), key=parts.__getitem__)
        hot = self.sampler.hot_key(topic, busiest, sample.logs[topic][busiest])
        return replace(observation, hot=hot)

    def _act(
        self,
        topic: str,
        known: _Topic,
        count: int,
        decision: Decision,
        now: float,
        send: SendRequest,
    ) -> None:
        known.state = known.state.changed(now, count, decision.target)
        # Before the request: if this process ends now, the next controller counts the change.
        self._write(topic, known, updated(known.record, review_id=None))
        body = {"topics": [{"topic": topic, "partition_count": decision.target}], "timeout_ms": _TIMEOUT_MS}
        answer = send(OwnRequest(PRINCIPAL, "/v1/partition-counts", body, decision.reason))
        entry = view(DecisionEntry, decision, at=now, count=count, outcome=answer.outcome)
        if answer.error is not None:
            entry = updated(entry, reason=f"{decision.reason}; {answer.error}")
            _log.warning(
                "topic %s: %s to %d partitions: %s", topic, decision.action, decision.target, answer.error
            )
        known.record = updated(known.record, review_id=answer.review_id)
        self._note(topic, known, entry)

    def _note(self, topic: str, known: _Topic, entry: DecisionEntry) -> None:
        """Keep and audit a decision that differs from the one before."""
        last = known.decision
        if last is None:
            last = known.record.decisions[0] if known.record.decisions else None
        if entry.outcome == "requested" or not _is_same(last, entry):
            decisions = (entry, *known.record.decisions)[:_KEPT]
            self._write(topic, known, updated(known.record, decisions=decisions))
            self.figures.decided(topic, entry.action, entry.held_by or entry.outcome)
            fields = {"topic": topic, **entry.model_dump(exclude={"at"})}
            self.audit.add("autoscale", fields)
            self.webhook.send("autoscale", "decision", fields)
        with self._lock:
            known.decision = entry

    def _write(self, topic: str, known: _Topic, record: AutoscaleRecord) -> None:
        new = stored(record, known.state)
        self.store.write(topic, new)
        with self._lock:
            known.record = new


def _is_same(last: DecisionEntry | None, entry: DecisionEntry) -> bool:
    if last is None:
        return entry.action == "none"
    if last.outcome in ("requested", "in_review") and entry.held_by == "under_way":
        return last.action == entry.action  # what was requested is under way
    names = ["action", "outcome", "held_by", *(["target"] if entry.action != "none" else [])]
    return all(getattr(last, name) == getattr(entry, name) for name in names)
