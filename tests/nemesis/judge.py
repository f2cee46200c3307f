"""What a run must not show. Pure: it gets the history and what plain consumers have read at the end, and gives violations.

It shares nothing with the code under test but the checker of order, loss and duplicates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.checker import check
from tests.nemesis.journal import Event

_SHOWN = 5
_BITS = 40
"""Bits of a record's number where one integer names its key, too."""
_FENCED = "RequestError: UNKNOWN_MEMBER_ID"
"""What a member ends with whose place another process has."""
_BROKEN = (
    "DataLossError",
    "MisroutedRecordError",
    "ReplayMismatchError",
    "TransitionError",
    "ConfigError",
    "UNKNOWN_SERVER",
    _FENCED,
)
"""Errors that no fault of a run explains."""
_REFUSED = {
    "UNKNOWN_SERVER_ERROR",
    "CORRUPT_MESSAGE",
    "LOG_TRUNCATED",
    "ACTIVE_FOREIGN_PRODUCERS",
}
"""Answers to an operator that no fault of a run explains."""


_OTHERS = ("broker", "kraft", "zookeeper", "master", "worker")
"""Hosts of servers that are not of this package: how long they take to end is not its matter."""
_ACKNOWLEDGED = 30.0
"""Seconds after an unclean election in which a record may be acknowledged that it lost: its transaction is committed then."""
_ALONE = 60.0
"""Seconds before an unclean election that no fault asked for in which a leader may have written alone: a broker that is started
again before its death was noticed is out of sync only then, and the next fault may take the one that has it all."""
_UNNOTICED = 60.0
"""Seconds after a fault in which a member may not have noticed that it was taken for dead."""


_LEAST = 300.0
"""Seconds in which growth is looked for. In less, a third has two rests, and members have as many clients as partitions by chance."""


class Records(NamedTuple):
    """The key of each record, and its number among the records of the key; as arrays, since there may be ten million."""

    keys: npt.NDArray[np.str_]
    numbers: npt.NDArray[np.int64]


class Bound(NamedTuple):
    """A figure may grow to ``factor`` times as much, and by ``more``."""

    factor: float
    more: float


class _Claim(NamedTuple):
    """A member that reads a key from a partition."""

    member: str
    partition: int


BOUNDS = {
    "rss": Bound(1.25, 64 * 2**20),
    "threads": Bound(1.25, 6),
    "files": Bound(1.25, 12),
    "connections": Bound(1.25, 10),
}
"""How much more a process may have in the last third of a run than in the first: upper quartiles of quiet times."""
_SETTLED, _SETTLED_BY_ROLE = 45.0, {"query": 180.0, "executor": 180.0}
"""Seconds after its start from which a process is measured: Spark's pools of threads fill for minutes."""


def check_log(records: Records, events: Iterable[Event]) -> list[str]:
    """Every key's records in order, without gap and doubles, and all there that was acknowledged.

    ``records``: all of the topic that writers write to, in the order of layouts and offsets.
    """
    found = _check_order("the log", records)
    names, ids = np.unique(records.keys, return_inverse=True)
    greatest = np.full(len(names), -1, dtype=np.int64)
    np.maximum.at(greatest, ids, records.numbers)
    last = dict(zip(names.tolist(), greatest.tolist(), strict=True))
    acknowledged: dict[str, int] = {}
    for event in events:
        if event["action"] == "acknowledged":
            for key, number in event["last"].items():
                acknowledged[key] = max(number, acknowledged.get(key, -1))
    missing = [f"{key}:{number}" for key, number in acknowledged.items() if last.get(key, -1) < number]
    return found + violation_of("acknowledged and not in the log", missing)


def check_copy(name: str, records: Records, copied: Records) -> list[str]:
    """A copy has each record once, each key in order, and nothing that was never committed."""
    missing, strange = _compared(records, copied)
    return [
        *_check_order(name, copied),
        *violation_of(f"{name}: in no committed transaction of the source", strange),
        *violation_of(f"{name}: not copied", missing),
    ]


def check_losses(left: Records, saved: Records, events: Sequence[Event]) -> list[str]:
    """Of a topic with unclean leader elections: what is ``left`` of it, and the copy that was made all the while.

    Both have each record once and each key in order. Only an election loses what was acknowledged: what it was acknowledged
    in the time of. The copy has all that is left, and more only where records were lost after they were read.
    """
    elections = _elections(events)
    missing, more = _compared(left, saved)
    return [
        *_check_order("unsafe", left, may_lack=True),
        *_check_order("saved", saved, may_lack=True),
        *violation_of("lost without an election", _lost(left, events, elections)),
        *violation_of("saved: not in the log, which has lost nothing", [] if elections else more),
        *violation_of("saved: not copied", missing),
    ]


def not_copied(left: Records, saved: Records) -> list[str]:
    """What of a log its copy lacks."""
    return violation_of("not copied", _compared(left, saved)[0])


def _compared(some: Records, others: Records) -> tuple[list[str], list[str]]:
    """What only the first has, and what only the second has."""
    names = np.union1d(some.keys, others.keys)
    first, second = _coded(names, some), _coded(names, others)
    return _words(names, np.setdiff1d(first, second)), _words(names, np.setdiff1d(second, first))


def _elections(events: Iterable[Event]) -> list[tuple[float, float]]:
    """From when to when records may have been acknowledged that an unclean election lost."""
    begun, found = 0.0, []
    for event in events:
        if event.get("kind") == "unclean election":
            if event["action"] == "fault":
                begun = event["at"]
            elif event["action"] == "healed":
                found.append((begun, event["at"] + _ACKNOWLEDGED))
        elif event["action"] == "unclean":
            found.append((event["at"] - _ALONE, event["at"] + _ACKNOWLEDGED))
    return found


def _lost(left: Records, events: Iterable[Event], elections: Sequence[tuple[float, float]]) -> list[str]:
    """What was acknowledged at another time than that of an election, and is not there."""
    there: dict[str, set[int]] = defaultdict(set)
    for key, number in zip(left.keys.tolist(), left.numbers.tolist(), strict=True):
        there[key].add(number)
    acknowledged: dict[str, int] = {}
    found = []
    for event in events:
        if event["action"] == "acknowledged":
            excused = any(begin <= event["at"] <= end for begin, end in elections)
            for key, number in event["last"].items():
                new = range(acknowledged.get(key, -1) + 1, number + 1)
                found += [f"{key}:{one}" for one in new if not excused and one not in there[key]]
                acknowledged[key] = max(number, acknowledged.get(key, -1))
    return found


def _coded(names: npt.NDArray[np.str_], records: Records) -> npt.NDArray[np.int64]:
    """A number for each record: the place of its key among the sorted names, and its own number."""
    return np.searchsorted(names, records.keys).astype(np.int64) << _BITS | records.numbers


def _words(names: npt.NDArray[np.str_], codes: npt.NDArray[np.int64]) -> list[str]:
    return [f"{names[code >> _BITS]}:{code & (1 << _BITS) - 1}" for code in codes.tolist()]


def _check_order(name: str, records: Records, *, may_lack: bool = False) -> list[str]:
    if not len(records.keys):
        return [f"{name} has no records"]
    report = check(records.keys, records.numbers)
    wrong = report.duplicated + report.out_of_order if may_lack else report.violations
    return [f"{name}: {report}"] if wrong else []


def check_holding(events: Iterable[Event]) -> list[str]:
    """No two members have a key at once.

    A member holds a key from its first record until it gives the partition up, loses it, is killed, or ends. What ends with
    ``lost`` excuses others: the group has taken the member for dead, while it stood still or was cut off, and had no way to
    let it know. So does its death, after a fault: it had no time to notice; and what it has given up after the brokers' own
    logs say that a member was expelled: it may have heard of the rebalance that others' expulsion began before its own. Whatever else it holds while another reads the
    key is a violation.
    """
    claims: dict[str, dict[_Claim, float]] = defaultdict(dict)
    doubts: dict[tuple[str, _Claim], _Claim] = {}
    found: list[str] = []
    disturbed = expelled = -_UNNOTICED
    for event in events:
        member, action, at = event["process"], event["action"], event["at"]
        if action == "fault":
            disturbed = at
        elif action == "expelled":
            expelled = at
        elif action == "hold":
            for key, partition in event["places"]:
                own = _Claim(member, partition)
                for other, since in claims[key].items():
                    if other.member != member and not max(since, at - _UNNOTICED) <= expelled:
                        doubts.setdefault((key, other), own)
                claims[key][own] = at
        elif action in {"give up", "lost", "killed", "ended", "stopped"}:
            if action in {"give up", "lost"}:
                gone = {_Claim(member, partition) for partition in event["partitions"]}
                excused = action == "lost"
            else:
                member = f"{event['node']}.{event['number']}"
                gone = {one for of_key in claims.values() for one in of_key if one.member == member}
                excused = at - disturbed <= _UNNOTICED
            for key, of_key in claims.items():
                for one in of_key.keys() & gone:
                    del of_key[one]
                    by = doubts.pop((key, one), None)
                    if by is not None and not excused:
                        found.append(_held_twice(key, one, by))
    return found + [_held_twice(key, one, by) for (key, one), by in doubts.items()]


def _held_twice(key: str, one: _Claim, by: _Claim) -> str:
    return f"{by.member} read {key} from partition {by.partition} while {one.member} held it from {one.partition}"


def check_layouts(events: Iterable[Event]) -> list[str]:
    """A layout never changes, and the epochs of a topic have no gap."""
    layouts: dict[tuple[str, str, int], str] = {}
    found = []
    for event in events:
        if event["action"] == "layout":
            place = (event["topic"], event["topic_id"], event["epoch"])
            before = layouts.setdefault(place, event["content"])
            if before != event["content"]:
                found.append(f"layout {place} was {before} and is {event['content']}")
    for topic, topic_id in {place[:2] for place in layouts}:
        epochs = sorted(epoch for name, its_id, epoch in layouts if (name, its_id) == (topic, topic_id))
        if epochs != list(range(epochs[0], epochs[-1] + 1)):
            found.append(f"{topic} has the layout epochs {epochs}")
    return found


def check_growing(events: Iterable[Event]) -> list[str]:
    """Ids of requests and epochs of controllers only grow."""
    last: dict[str, int] = {}
    found = []
    for event in events:
        if event["action"] == "number":
            before = last.get(event["what"], -1)
            if event["value"] < before:
                found.append(f"{event['what']} was {before} and is {event['value']}")
            last[event["what"]] = event["value"]
    return found


def check_guard_rails(events: Iterable[Event]) -> list[str]:
    """A broker gets no replica beyond its limit. What it had, and was planned to get, when the limit was set is tolerated.

    It may have been removed and set again to the same value: ``written`` tells when.
    """
    found = []
    limits: dict[int, tuple[tuple[int, int] | None, int]] = {}
    for event in events:
        if event["action"] != "hosted":
            continue
        broker, limit, hosted = event["broker"], event["limit"], event["hosted"]
        known, most = limits.get(broker, (None, 0))
        is_set = limit, event["written"]
        if known != is_set:
            most = max(limit, hosted, event["planned"])
        elif hosted > most:
            found.append(f"broker {broker} hosts {hosted} replicas, its limit is {limit} and it had {most}")
        limits[broker] = is_set, max(most, hosted)
    return found


def check_errors(events: Iterable[Event]) -> list[str]:
    """No client ends with an error, and no operator gets one, that no fault explains; none had to be killed."""
    found = []
    replaced = set()
    for event in events:
        process, action = event["process"], event["action"]
        if action == "replaced":
            replaced.add(f"{event['node']}.{event['number']}")
        elif action == "failed" and process in replaced and _FENCED in event["error"]:
            continue
        elif action == "failed" and any(name in event["error"] for name in _BROKEN):
            found.append(f"{process} failed: {event['error']}")
        elif action == "operate" and _REFUSED.intersection(event["errors"]):
            found.append(
                f"{process}: {event['what']} {event.get('about')}: {event['errors']} {event.get('message', '')}"
            )
        elif action == "ended" and "Traceback" in event.get("tail", ""):
            found.append(f"{event['node']} ended by itself: {event['tail']}")
        elif action == "stuck" and event["node"].rpartition("-")[0] not in _OTHERS:
            found.append(f"{event['node']} did not end within a minute of SIGTERM")
        elif action == "overdue":
            found.append(
                f"{event['what']}: not within {event['seconds']:g} s after the last fault: {event['state']}"
            )
        elif action == "throttle left":
            found.append(f"{event['resource']} still has {event['name']}={event['value']}")
    return found


def check_usage(events: Sequence[Event], bounds: Mapping[str, Bound] = BOUNDS) -> list[str]:
    """No kind of process of this package needs more and more: upper quartiles of its quiet samples, first and last third.

    Not medians: of three controllers one leads, and which of the others are asked is chance.
    """
    usages = [event for event in events if event["action"] == "usage"]
    samples = [one for one in usages if one["age"] >= _SETTLED_BY_ROLE.get(one["role"], _SETTLED)]
    if not samples:
        return []
    begin, end = samples[0]["at"], samples[-1]["at"]
    if end - begin < _LEAST:
        return []
    third = (end - begin) / 3
    found = []
    for role in sorted({event["role"] for event in samples}):
        for what, bound in bounds.items():
            own = [one for one in samples if one["role"] == role and what in one]
            early = [one[what] for one in own if one["at"] <= begin + third]
            late = [one[what] for one in own if one["at"] >= end - third]
            if not early or not late:
                continue
            before, after = (float(np.percentile(some, 75)) for some in (early, late))
            if after > before * bound.factor + bound.more:
                found.append(f"{what} of {role} has grown from {before:.0f} to {after:.0f}")
    return found


def check_history(events: Sequence[Event]) -> list[str]:
    """All that the history alone shows."""
    checks = (check_holding, check_layouts, check_growing, check_guard_rails, check_errors, check_usage)
    return [violation for one in checks for violation in one(events)]


def violation_of(what: str, examples: Sequence[str]) -> list[str]:
    """A violation with how many examples it has, and the first of them; nothing where it has none."""
    return [f"{what}: {len(examples)}, such as {', '.join(sorted(examples)[:_SHOWN])}"] if examples else []
