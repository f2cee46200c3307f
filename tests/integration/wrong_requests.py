"""Requests with one thing wrong: method, path, body, and the field that the answer must name."""

from __future__ import annotations

import json
from typing import Any

JSON = {"content-type": "application/json"}


HUGE = 10**30
INT32 = 2**31


# method, path ("{t}" is a topic under management with two partitions), wrong body -> the field that the answer names.
Case = tuple[str, str, Any, str]


def of_type(method: str, path: str, body: dict[str, Any], field: str, *values: Any) -> list[Case]:
    """``body`` with each of ``values`` at ``field``, a path of names and indexes."""
    cases = []
    for value in values:
        wrong = json.loads(json.dumps(body))
        *parents, last = [int(part) if part.isdigit() else part for part in field.split(".")]
        node = wrong
        for part in parents:
            node = node[part]
        node[last] = value
        cases.append((method, path, wrong, field))
    return cases


NOT_TEXT: tuple[Any, ...] = (None, 5, True, [], {})
NOT_FLAG: tuple[Any, ...] = (None, 1, "true", [], {})
NOT_NUMBER: tuple[Any, ...] = ("1", True, 1.5, [], {})
NOT_LIST: tuple[Any, ...] = (None, 1, "x", {}, True)

CREATION = {"topic": "t", "partitions": 1, "replication_factor": 1, "configs": {}, "hash": "murmur3"}
COUNTS: dict[str, Any] = {"topics": [{"topic": "{t}", "partition_count": 3}]}
FACTORS: dict[str, Any] = {"topics": [{"topic": "{t}", "replication_factor": 1}]}
LOG_DIRS: dict[str, Any] = {
    "replicas": [{"topic": "{t}", "partition": 0, "broker": 1, "log_dir": "/nowhere"}]
}
CHECK: dict[str, Any] = {"positions": [{"partition": 0, "offset": 0, "leader_epoch": 0}]}
ROWS: dict[str, Any] = {"partitions": [{"topic": "{t}", "partition": 0, "replicas": [1]}]}
MOVES, VERIFY = "/v1/reassignments", "/v1/reassignments/verify"
PLAN = "/v1/reassignments/plan"
ELECTIONS = "/v1/leader-elections"
ELECTED: dict[str, Any] = {"partitions": [{"topic": "{t}", "partition": 0}]}
EMPTYING: dict[str, Any] = {"goal": "empty_log_dirs", "brokers": [1], "log_dirs": ["/nowhere"]}
LAYOUTS: dict[str, Any] = {"topics": [{"topic": "{t}", "from_epoch": 0}]}
NAME: dict[str, Any] = {"topic": "{t}", "writer": "w", "nonce": "n"}

WRONG: list[Case] = [
    *of_type("POST", "/v1/topics", CREATION, "topic", *NOT_TEXT),
    *of_type("POST", "/v1/topics", CREATION, "partitions", *NOT_NUMBER, 0, -1, INT32, HUGE, -HUGE),
    *of_type("POST", "/v1/topics", CREATION, "replication_factor", *NOT_NUMBER, 0, -1, 2, INT32, HUGE),
    *of_type("POST", "/v1/topics", CREATION, "hash", *NOT_TEXT, "", "md5", "x" * 10_000),
    *of_type("POST", "/v1/topics", CREATION, "ordered_delivery", *NOT_FLAG),
    *of_type("POST", "/v1/topics", CREATION, "validate_only", *NOT_FLAG),
    *of_type("POST", "/v1/topics", CREATION, "timeout_ms", *NOT_NUMBER, 0, -1, 10**7, HUGE),
    *of_type(
        "POST", "/v1/topics", CREATION, "configs", 1, [], "x", {"retention.ms": 1}, {"retention.ms": None}
    ),
    *of_type("POST", "/v1/topics", CREATION, "assignments", 1, [], "x", {"x": [1]}, {"0": 1}, {"0": ["1"]}),
    *of_type("POST", "/v1/topics", CREATION, "nonsense", 1),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.partitions", *NOT_NUMBER),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.topic", *NOT_TEXT),
    *of_type("POST", "/v1/topic-deletions", {"topics": ["t"]}, "topics", *NOT_LIST, [], [1], [None]),
    *of_type("POST", "/v1/topics/{t}/adopt", {}, "hash", *NOT_TEXT, "", "md5"),
    *of_type("POST", "/v1/topics/{t}/adopt", {}, "force", *NOT_FLAG),
    *of_type("POST", "/v1/topics/{t}/release", {}, "force", *NOT_FLAG),
    *of_type("PATCH", "/v1/topics/{t}", {}, "ordered_delivery", 1, "true", []),
    *of_type("PATCH", "/v1/topics/{t}", {}, "configs", None, 1, [], {"retention.ms": 5}),
    *of_type("PATCH", "/v1/topics/{t}", {}, "force", *NOT_FLAG),
    *of_type("POST", "/v1/topics/{t}/delete-records", {}, "partitions", 1, "0", {}, [-1], ["0"], [2], [HUGE]),
    *of_type(
        "POST", "/v1/topics/{t}/misrouted", {}, "records", *NOT_NUMBER, None, 0, -1, 2**63, HUGE, 10**400
    ),
    *of_type("POST", "/v1/writer-names", {}, "topic", 1, [], {}, True, "x" * 250),
    *(
        case
        for field in ("topic", "writer", "nonce")
        for case in of_type("POST", "/v1/writer-names/release", NAME, field, 1, [], {}, True, "x" * 250)
    ),
    *of_type("POST", "/v1/layouts", LAYOUTS, "topics", *NOT_LIST, [], [1], ["t"]),
    *of_type("POST", "/v1/layouts", LAYOUTS, "topics.0.topic", *NOT_TEXT),
    *of_type("POST", "/v1/layouts", LAYOUTS, "topics.0.from_epoch", *NOT_NUMBER, -1),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "partitions", 1, "0", {}, [-1], ["0"], [2], [HUGE]),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions", *NOT_LIST, [1]),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.partition", *NOT_NUMBER, -1, 2, HUGE),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.offset", *NOT_NUMBER, -1, 2**63, HUGE),
    *of_type(
        "POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.leader_epoch", *NOT_NUMBER, INT32, HUGE
    ),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/partition-counts", COUNTS, "force", *NOT_FLAG),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.layout_epoch", *NOT_NUMBER),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.topic", *NOT_TEXT),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.partition_count", *NOT_NUMBER, None),
    *of_type("POST", "/v1/replication-factors", FACTORS, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/replication-factors", FACTORS, "topics.0.replication_factor", *NOT_NUMBER),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas", *NOT_LIST, [], [1]),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.topic", *NOT_TEXT),
    *of_type(
        "POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.partition", *NOT_NUMBER, None, INT32, HUGE
    ),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.broker", *NOT_NUMBER, None, INT32, HUGE),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.log_dir", *NOT_TEXT),
    *of_type(
        "POST", "/v1/replica-log-dirs", LOG_DIRS, "replica_alter_log_dirs_throttle", *NOT_NUMBER, 0, -1, HUGE
    ),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "validate_only", *NOT_FLAG),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "timeout_ms", 0, -1, 10**7, HUGE, "1"),
    *of_type("PUT", "/v1/brokers/1/guard-rails", {}, "max_partitions", *NOT_NUMBER, -1, INT32, HUGE),
    *of_type("PUT", "/v1/brokers/1/guard-rails", {"max_partitions": 1}, "validate_only", *NOT_FLAG),
    *(
        case
        for path in (MOVES, VERIFY)
        for case in (
            *of_type("POST", path, ROWS, "version", "1", 1.5, [], {}, 0, 2, None),
            *of_type("POST", path, ROWS, "partitions", 1, "x", {}, True, [], [1]),
            *of_type("POST", path, ROWS, "partitions.0.topic", *NOT_TEXT),
            *of_type("POST", path, ROWS, "partitions.0.partition", *NOT_NUMBER, None, INT32, HUGE),
            *of_type("POST", path, ROWS, "partitions.0.replicas", *NOT_LIST, ["1"], [1.5], [None], [INT32]),
            *of_type("POST", path, ROWS, "partitions.0.log_dirs", 1, "x", {}, True, [1], [None]),
            *of_type("POST", path, ROWS, "partitions.0.nonsense", 1),
            *of_type("POST", path, ROWS, "nonsense", 1),
        )
    ),
    *of_type("POST", MOVES, {}, "rollback", *NOT_NUMBER, INT32, HUGE, None),
    *(
        case
        for method, path, body in (("POST", MOVES, ROWS), ("PATCH", f"{MOVES}/1", {}))
        for field in ("throttle", "replica_alter_log_dirs_throttle")
        for case in of_type(method, path, body, field, *NOT_NUMBER, 0, -1, HUGE)
    ),
    *(
        case
        for field in ("additional", "allow_replication_factor_change", "elect_leaders")
        for case in of_type("POST", MOVES, ROWS, field, *NOT_FLAG)
    ),
    *(
        case
        for method, path, body, fields in (
            ("POST", MOVES, ROWS, ("validate_only", "timeout_ms")),
            ("PATCH", f"{MOVES}/1", {"throttle": 1}, ("validate_only",)),
            ("POST", "/v1/topic-deletions", {"topics": ["t"]}, ("validate_only", "timeout_ms")),
            ("POST", "/v1/topics/{t}/adopt", {}, ("validate_only",)),
            ("POST", "/v1/topics/{t}/release", {}, ("validate_only", "timeout_ms")),
            ("PATCH", "/v1/topics/{t}", {}, ("validate_only",)),
            ("POST", "/v1/topics/{t}/delete-records", {}, ("force", "validate_only")),
            ("POST", "/v1/partition-counts", COUNTS, ("validate_only", "timeout_ms")),
            ("POST", "/v1/replication-factors", FACTORS, ("validate_only", "timeout_ms")),
        )
        for field in fields
        for case in of_type(
            method, path, body, field, *([0, -1, 10**7, HUGE, "1"] if field == "timeout_ms" else NOT_FLAG)
        )
    ),
    *of_type(
        "POST", "/v1/partition-counts", COUNTS, "topics.0.assignments", 1, [], "x", {"x": [1]}, {"0": 1}
    ),
    *of_type(
        "POST", "/v1/replication-factors", FACTORS, "topics.0.assignments", 1, [], "x", {"x": [1]}, {"0": 1}
    ),
]
WRONG += [
    *of_type("POST", ELECTIONS, {}, "partitions", *NOT_LIST[1:], [], [1], [None]),
    *of_type("POST", ELECTIONS, ELECTED, "partitions.0.topic", *NOT_TEXT),
    *of_type("POST", ELECTIONS, ELECTED, "partitions.0.partition", *NOT_NUMBER, None, INT32, HUGE),
    *of_type("POST", ELECTIONS, {}, "validate_only", *NOT_FLAG),
    *of_type(
        "POST", PLAN, {"goal": "balance"}, "also", *NOT_LIST[1:], [], [1], ["drain"], ["leaders", "leaders"]
    ),
    *of_type("POST", PLAN, {"goal": "leaders"}, "also", ["racks"], ["leaders"]),
    *of_type("POST", PLAN, {}, "goal", *NOT_TEXT, "", "nothing", "DRAIN"),
    *of_type("POST", PLAN, {"goal": "drain"}, "brokers", *NOT_LIST, [], ["1"], [1], [9], [INT32], [1, 1]),
    *of_type("POST", PLAN, {"goal": "spread"}, "brokers", None, [], [9], [-1]),
    *of_type("POST", PLAN, {"goal": "racks"}, "brokers", [], [1]),
    *of_type("POST", PLAN, {"goal": "balance"}, "topics", *NOT_LIST[1:], [], [1], ["missing"], ["a b"]),
    *of_type("POST", PLAN, {"goal": "balance"}, "topics", ["{t}", "{t}"], [""], ["x" * 250]),
    *of_type("POST", PLAN, {"goal": "replication_factor"}, "replication_factor", *NOT_NUMBER, None, 0, -1, 2),
    *of_type("POST", PLAN, {"goal": "replication_factor"}, "replication_factor", INT32, HUGE),
    *of_type("POST", PLAN, {"goal": "drain", "brokers": [1]}, "replication_factor", 0, 1),
    *of_type("POST", PLAN, EMPTYING, "log_dirs", *NOT_LIST, [], [1], [""], ["/nowhere"], ["/a", "/a"]),
    *of_type("POST", PLAN, EMPTYING, "brokers", None, [], [9], [1, 9]),
    *of_type("POST", PLAN, {"goal": "balance"}, "log_dirs", [], ["/a"]),
]
# Refused for one topic of several, in whose result the reason is.
PER_TOPIC: list[Case] = [
    *of_type(
        "POST", "/v1/layouts", LAYOUTS, "topics.0.topic", "", "..", "a/b", "missing", "__consumer_offsets"
    ),
    *of_type("POST", "/v1/layouts", LAYOUTS, "topics.0.from_epoch", 2, INT32, HUGE),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.partitions", 0, -1, INT32, HUGE),
    *of_type(
        "POST",
        "/v1/partition-counts",
        COUNTS,
        "topics.0.partition_count",
        0,
        -1,
        1,
        2,
        2_000_000_000,
        INT32,
        HUGE,
    ),
    *of_type(
        "POST",
        "/v1/partition-counts",
        COUNTS,
        "topics.0.topic",
        "",
        "..",
        "a/b",
        "missing",
        "__consumer_offsets",
    ),
    *of_type(
        "POST",
        "/v1/replication-factors",
        FACTORS,
        "topics.0.replication_factor",
        0,
        -1,
        2,
        32767,
        INT32,
        HUGE,
    ),
    *of_type(
        "POST",
        "/v1/replication-factors",
        FACTORS,
        "topics.0.topic",
        "",
        "..",
        "missing",
        "__consumer_offsets",
    ),
    *of_type(
        "POST",
        "/v1/topic-deletions",
        {"topics": ["t"]},
        "topics.0",
        "",
        "..",
        "missing",
        "__consumer_offsets",
    ),
]
PATHS: list[tuple[str, str, int]] = [
    *(("GET", f"/v1/topics/{name}", 400) for name in ("a%20b", "%00", "%FF%FE", "x" * 250, "__consumer_offsets")),
    *(("GET", f"/v1/topics/{{t}}/layout?from_epoch={n}", 400) for n in ("-1", "x", "", "1.5", "NaN", "9" * 400)),
    *(("GET", f"/v1/topics/{{t}}/layout?writer={n}", 400) for n in ("", "maybe", "2")),
    *(("GET", f"/v1/topics/{{t}}?details={n}", 400) for n in ("", "x", "7")),
    *(("GET", f"/v1/topics/{{t}}/leader-epochs?partitions={n}", 400) for n in ("", "-1", "x", "1,", "0x1", "1.5", "%D9%A3", "1_0", "9" * 400)),
    ("GET", "/v1/topics/{t}/leader-epochs?partitions=2", 404),
    *(("PATCH", f"/v1/topics/{{t}}?wait={n}", 400) for n in ("0", "-1", "601", "nan", "inf", "1e400", "x", "")),
    *(("POST", f"/v1/partition-counts?wait={n}", 400) for n in ("0", "-1", "nan", "x")),
    *(("DELETE", f"/v1/topics/{{t}}?validate_only={n}", 400) for n in ("", "x", "7")),
    *(("DELETE", f"/v1/topics/{{t}}?validate_only=true&timeout_ms={n}", 400) for n in ("0", "-1", "x", "9" * 400)),
    *(("PUT", f"/v1/brokers/{n}/guard-rails", 400) for n in ("x", "1.5", "-1", "7", "2147483648", "9" * 400)),
    *(("GET", f"/v1/reassignments/{n}", 400) for n in ("x", "1.5", "-1", "0", "7", "9" * 400, "%00", "LATEST")),
    *(("DELETE", f"/v1/reassignments/{n}", 400) for n in ("x", "7", "latest", "7?validate_only=x")),
    *(("GET", f"/v1/groups/{n}/positions", 404) for n in ("missing", "%FF", "a/b", "..")),
    *(("GET", f"/v1/groups/{n}/positions", 400) for n in ("%00", "a%00b")),
    *(("GET", f"/v1/log-dirs?broker={n}", 400) for n in ("x", "", "1,", "-1", "1.5", "%D9%A3", "1_0", "7", "9" * 400)),
    *(("GET", f"/v1/log-dirs?log_dir={n}", 400) for n in ("", "nowhere", "%00", "/a%00")),
    *(("GET", f"/v1/{p}?timeout_ms={n}", 400) for p in ("log-dirs", "replica-log-dirs") for n in ("", "0", "-1", "x", "9" * 400)),
    *(("GET", f"/v1/{p}?topic={n}", 400) for p in ("log-dirs", "replica-status") for n in ("", "a%20b", "%00", "x" * 250)),
    *(("GET", f"/v1/{p}?topic=missing", 404) for p in ("log-dirs", "replica-log-dirs", "replica-status")),
    *(("GET", f"/v1/replica-log-dirs?topic={{t}}&partition={n}", 404) for n in ("2", "2147483647")),
    *(("GET", f"/v1/replica-log-dirs?topic={{t}}&partition={n}", 400) for n in ("", "-1", "x", "2147483648")),
    *(("GET", f"/v1/replica-status?partition={n}", 400) for n in ("0", "x")),
    *(("GET", f"/v1/groups/g/positions?topic={n}", 400) for n in ("a%20b", "", "%00")),
    *(("GET", path, 404) for path in ("/v1", "/v2/topics", "/v1/topics/", "/v1/topics//layout", "/v1/%2e%2e")),
    *((method, "/v1/topics/{t}/layout", 405) for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW")),
    ("GET", f"/v1/topics/{'x' * 9000}", 414),
    ("GET", f"/v1/topics?{'x' * 60_001}", 414),
]  # fmt: skip
