"""Looks at the cluster again and again, at the leader, and proposes or requests what would heal it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas.healing import HealingAction, HealingOutcome
from spark_ordered_kafka.controller.automation.requests import (
    OwnRequest,
    SendRequest,
    waiting_reason,
    waits,
)
from spark_ordered_kafka.controller.automation.rules import in_last_day
from spark_ordered_kafka.controller.background import Background, every
from spark_ordered_kafka.controller.healing.figures import HealingFigures
from spark_ordered_kafka.controller.healing.observation import Observation
from spark_ordered_kafka.controller.healing.planning import HealingPlans, Planned
from spark_ordered_kafka.controller.healing.policy import Finding, Proposal, State, decide, longest_gap
from spark_ordered_kafka.controller.healing.records import broker_view, remembered, stored
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.healing.sampling import Sample, Sampler
from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.webhook import Webhook
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.state.healing import HealingEntry, HealingRecord, HealingStore
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.reviews import Reviews
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.updates import updated

PRINCIPAL = "User:healing"
"""The principal of the requests; it needs CLUSTER_ACTION on the cluster (D-297)."""

_log = logging.getLogger(__name__)
_KEPT = 20
_SOURCE = "healing"
_NOTHING = Planned(None, ())


@dataclass(frozen=True)
class _View:
    """The newest observation of this process, and what was decided."""

    at: float
    observation: Observation
    findings: tuple[Finding, ...]
    proposals: tuple[Proposal, ...]


@dataclass(eq=False)
class Healer:
    """Runs in the thread of its ``background``, unless it is off.

    ``clock`` gives seconds since the epoch. What has been found, requested and proposed is kept in ZooKeeper, so it holds
    across controllers. ``changing`` gives the topics whose partition count is being changed. ``send`` gives None until the API
    has started; what is due waits for it.
    """

    rules: Rules
    sampler: Sampler
    plans: HealingPlans
    store: HealingStore
    reassignments: ReassignmentStore
    reviews: Reviews
    audit: AuditLog
    webhook: Webhook
    figures: HealingFigures
    clock: Callable[[], float]
    changing: Callable[[], Iterable[str]]
    send: Callable[[], SendRequest | None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # guards _newest against view()
        self._newest: _View | None = None
        self._sample: Sample | None = None
        self._record: HealingRecord | None = None
        self._state = State()
        self.background = Background(
            "healing",
            "self-healing",
            every(self.rules.interval),
            self._step,
            forget=self._forget,
            enabled=self.rules.mode != "off",
        )

    def view(self) -> schemas.HealingView:
        """What is known. Controllers that do not lead show what ZooKeeper has."""
        record = self.store.read()
        with self._lock:
            newest = self._newest
        if newest is None:
            findings = [view(schemas.HealingFinding, one, reason="") for one in record.conditions]
            at, brokers, proposals = None, [], []
        else:
            at, findings = newest.at, [view(schemas.HealingFinding, one) for one in newest.findings]
            brokers = [broker_view(one) for one in newest.observation.brokers]
            proposals = [view(schemas.HealingProposal, one) for one in newest.proposals]
        return schemas.HealingView(
            mode=self.rules.mode,
            at=at,
            brokers=brokers,
            findings=findings,
            proposals=proposals,
            requests_in_last_day=in_last_day([one.at for one in record.requests], self.clock()),
            requests_per_day=self.rules.requests_per_day,
            history=[view(schemas.HealingDecision, one) for one in record.history],
        )

    # -- the thread ---------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._sample = self._record = None
        with self._lock:
            self._newest = None
        self.figures.clear()

    def _step(self, stop: threading.Event) -> None:
        try:
            self._look(stop)
        finally:
            self.figures.clear(before=self.clock() - longest_gap(self.rules))

    def _look(self, stop: threading.Event) -> None:
        record = self._record
        if record is None:
            record = self._record = self.store.read()
            self._state = remembered(record)
        self._sample = sample = self.sampler.sample(self._sample)
        # After each part, so that it is not reported again when a later one fails.
        record = self._write(self._follow(record))
        observation = Observation(sample.brokers, sample.displaced, self._under_way(record, sample))
        if stop.is_set():
            return
        now = self.clock()
        findings, proposals, state = decide(self.rules, observation, self._state, now)
        self._report(findings, state, now)
        self._state = state
        with self._lock:
            self._newest = _View(now, observation, findings, proposals)
        try:
            record = self._write(self._withdraw(record, proposals, now))
            for proposal in proposals:
                record = self._write(self._handle(record, proposal, sample, now))
        finally:
            standing = ((one.action, one.held_by or one.outcome) for one in record.standing)
            self.figures.found(now, (one.kind for one in findings), standing)

    def _follow(self, record: HealingRecord) -> HealingRecord:
        """``record`` with what became of the last request."""
        if record.review_id is not None:
            record = self._follow_review(record, record.review_id)
        if record.request_id is None:
            return record
        read = self.reassignments.read(record.request_id)
        if read is not None and not read[0].ended:
            return record
        last = next((one for one in record.history if one.request_id == record.request_id), None)
        if last is not None and read is not None:
            outcome: HealingOutcome = (
                "done"
                if read[0].state == "done"
                else "cancelled"
                if read[0].state == "cancelled"
                else "failed"
            )
            reason = f"reassignment {record.request_id} has ended: {read[0].state}"
            entry = updated(last, at=self.clock(), outcome=outcome, held_by=None, reason=reason)
            record = self._note(record, entry)
        return updated(record, request_id=None)

    def _follow_review(self, record: HealingRecord, review_id: int) -> HealingRecord:
        """``record`` as it is while its review waits, and after that with the reassignment that the review became."""
        try:
            review, status = self.reviews.get(review_id)
        except RequestError:
            return updated(record, review_id=None)  # decided long ago, and deleted since
        if waits(status):
            return record
        last = next((one for one in record.history if one.outcome == "in_review"), None)
        answer = from_json(review.answer) if review.answer else None
        request_id = answer.get("request_id") if isinstance(answer, dict) else None
        if last is not None:
            done = status == "done"
            reason = f"review {review_id}: {status}"
            entry = updated(
                last,
                at=self.clock(),
                outcome="requested" if done else "refused",
                reason=reason,
                request_id=request_id,
            )
            record = self._stand(record, entry)
            if not done:
                # The cool-down begins anew, or a review that waited for long would be filed again at once.
                self._state = self._state.in_vain(self.clock(), cast(HealingAction, last.action))
        return updated(record, review_id=None, request_id=request_id)

    def _under_way(self, record: HealingRecord, sample: Sample) -> str | None:
        if record.request_id is not None:
            return f"reassignment {record.request_id} is in progress"
        if record.review_id is not None:
            return waiting_reason(record.review_id)
        if sample.ongoing or self.reassignments.active():
            return "other reassignments are in progress"
        changing = sorted(self.changing())
        return f"the partition count of topic {changing[0]} is being changed" if changing else None

    def _report(self, findings: Iterable[Finding], state: State, now: float) -> None:
        """Tell of findings that begin or end."""
        shown = {(one.kind, one.subject): one for one in findings}
        for key, one in shown.items():
            if key not in self._state.since:
                fields = {"kind": one.kind, "subject": one.subject, "since": one.since, "reason": one.reason}
                _log.warning("self-healing: %s", one.reason)
                self._tell("finding", fields)
        for kind, subject in self._state.since.keys() - state.since.keys():
            _log.info("self-healing: %s %s has ended", kind, subject)
            self._tell("finding_ended", {"kind": kind, "subject": subject, "ended": now})

    def _withdraw(self, record: HealingRecord, proposals: Iterable[Proposal], now: float) -> HealingRecord:
        """``record`` without standing proposals whose reason is gone."""
        there = {one.what for one in proposals}
        for one in record.standing:
            if (one.action, one.brokers) in there:
                continue
            record = updated(record, standing=tuple(other for other in record.standing if other is not one))
            if one.outcome in ("proposed", "in_review", "held"):
                if one.outcome == "in_review" and record.review_id is not None:
                    record = self._discard(record, record.review_id)
                reason = f"its reason is gone: {one.reason}"
                record = self._note(
                    record, updated(one, at=now, outcome="withdrawn", held_by=None, reason=reason)
                )
        return record

    def _discard(self, record: HealingRecord, review_id: int) -> HealingRecord:
        send = self.send()
        if send is None:
            return record
        reason = "the reason of the request is gone"
        answer = send(OwnRequest(PRINCIPAL, f"/v1/reviews/{review_id}/discard", {}, reason))
        if answer.error is not None:
            _log.warning("self-healing: review %d could not be discarded: %s", review_id, answer.error)
            return record
        return updated(record, review_id=None)

    def _handle(self, record: HealingRecord, proposal: Proposal, sample: Sample, now: float) -> HealingRecord:
        last = next((one for one in record.standing if (one.action, one.brokers) == proposal.what), None)
        if not proposal.due:
            if last is not None and (
                last.held_by == proposal.held_by
                or (last.outcome != "held" and proposal.held_by in ("under_way", "cooldown"))
            ):
                return record  # what was proposed, requested or found to be in vain still stands
            return self._stand(record, _entry(proposal, now, "held", _NOTHING))
        send = self.send()
        if self.rules.mode == "act":
            return record if send is None else self._act(record, proposal, sample, now, send)
        if last is not None and last.outcome == "proposed":
            return record
        planned = self.plans.plan(proposal, sample.rates)
        if planned.request is None:
            return self._in_vain(record, proposal, planned, now)
        return self._stand(record, _entry(proposal, now, "proposed", planned))

    def _act(
        self, record: HealingRecord, proposal: Proposal, sample: Sample, now: float, send: SendRequest
    ) -> HealingRecord:
        planned = self.plans.plan(proposal, sample.rates)
        if planned.request is None:
            return self._in_vain(record, proposal, planned, now)
        self._state = self._state.requested(now, proposal.action)
        # Before the request: if this process ends now, the next controller counts it.
        record = self._write(record)
        path, body = planned.request
        answer = send(OwnRequest(PRINCIPAL, path, body, proposal.reason))
        entry = _entry(proposal, now, answer.outcome, planned)
        if answer.error is not None:
            entry = updated(entry, reason=f"{entry.reason}; {answer.error}")
            _log.warning("self-healing: %s was refused: %s", proposal.action, answer.error)
        elif isinstance(answer.answer, dict) and answer.review_id is None:
            entry = updated(entry, request_id=answer.answer.get("request_id"))
        record = updated(record, review_id=answer.review_id, request_id=entry.request_id)
        return self._stand(record, entry)

    def _in_vain(
        self, record: HealingRecord, proposal: Proposal, planned: Planned, now: float
    ) -> HealingRecord:
        self._state = self._state.in_vain(now, proposal.action)
        entry = _entry(proposal, now, "nothing_to_do", planned)
        if any(updated(one, at=now) == entry for one in record.standing):
            return record  # as it was the last time
        return self._stand(record, entry)

    def _stand(self, record: HealingRecord, entry: HealingEntry) -> HealingRecord:
        """``record`` with the newest decision about a proposal."""
        what = (entry.action, entry.brokers)
        others = tuple(one for one in record.standing if (one.action, one.brokers) != what)
        return self._note(updated(record, standing=(*others, entry)), entry)

    def _note(self, record: HealingRecord, entry: HealingEntry) -> HealingRecord:
        """Keep, audit and report a decision."""
        self.figures.decided(entry.action, entry.held_by or entry.outcome)
        event = "proposal" if entry.outcome in ("proposed", "held", "in_review") else "outcome"
        self._tell(event, entry.model_dump(mode="json", exclude={"at"}))
        return updated(record, history=(entry, *record.history)[:_KEPT])

    def _tell(self, event: str, fields: Mapping[str, Any]) -> None:
        self.audit.add("healing", {"about": event, **fields})
        self.webhook.send(_SOURCE, event, fields)

    def _write(self, record: HealingRecord) -> HealingRecord:
        new = stored(record, self._state)
        if new != self._record:
            self.store.write(new)
            self._record = new
        return new


def _entry(proposal: Proposal, now: float, outcome: HealingOutcome, planned: Planned) -> HealingEntry:
    more = "".join(f"; {one}" for one in planned.notes)
    return HealingEntry(
        at=now,
        action=proposal.action,
        brokers=proposal.brokers,
        outcome=outcome,
        held_by=proposal.held_by,
        reason=f"{proposal.reason}{more}",
        partitions=planned.partitions,
        bytes_to_move=planned.bytes_to_move,
    )
