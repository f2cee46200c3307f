"""Explicit assignments: the brokers of a topic's replicas as a request names them. PURE.

An assignment maps partition -> broker ids, preferred leader first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spark_ordered_kafka.errors import ErrorCode, RequestError

Assignment = Mapping[int, Sequence[int]]

_SHOWN = 20


def check_new_topic(assignments: Assignment, brokers: Collection[int]) -> None:
    """Raises RequestError INVALID_REPLICA_ASSIGNMENT unless partitions 0, 1, … have as many, live, distinct brokers.

    An unknown broker is refused with that code as well, as Kafka's CreateTopics does.
    """
    if sorted(assignments) != list(range(len(assignments))) or not assignments:
        raise _refusal(f"names the partitions {_shown(assignments)}: they must be 0, 1, 2, … without a gap")
    _check_replicas(assignments, brokers, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    _check_factor(assignments, len(assignments[0]), "partition 0 has")


def check_new_partitions(
    assignments: Assignment, first: int, total: int, factor: int, brokers: Collection[int]
) -> None:
    """Check the assignment of the partitions ``first`` to ``total`` - 1, which an expansion adds to Kafka's.

    ``factor`` is the replication factor of the topic. Raises RequestError: INVALID_REPLICA_ASSIGNMENT, or
    UNKNOWN_MEMBER_ID for an unknown broker, as KIP-179 does when a topic is altered.
    """
    if first >= total:
        raise _refusal(
            f"names the partitions {_shown(assignments)}: Kafka has all {total} already, none is to be created"
        )
    if sorted(assignments) != list(range(first, total)):
        raise _refusal(
            f"names the partitions {_shown(assignments)}: those that are to be created are {first} to {total - 1}"
        )
    _check_replicas(assignments, brokers, ErrorCode.UNKNOWN_MEMBER_ID)
    _check_factor(assignments, factor, "the topic has")


def check_reassigned(
    assignments: Assignment, current: Assignment, undeleted: int, brokers: Collection[int]
) -> None:
    """Check an assignment that gives existing partitions other replicas.

    ``current`` has the replicas of all partitions, those below ``undeleted`` are written to: after it, they must all
    have as many. Raises RequestError: INVALID_REPLICA_ASSIGNMENT, or UNKNOWN_MEMBER_ID for an unknown broker.
    """
    if not assignments:
        raise _refusal("is empty: name the partitions that are to have other replicas")
    unknown = sorted(assignments.keys() - current.keys())
    if unknown:
        raise _refusal(f"names partition {unknown[0]}: the topic has 0 to {len(current) - 1}")
    kept = {p: len(current[p]) for p in current if p < undeleted and p not in assignments}
    new_brokers = {
        p: [b for b in replicas if b not in current[p]] if len(set(replicas)) == len(replicas) else replicas
        for p, replicas in assignments.items()
    }
    for partition, replicas in sorted(assignments.items()):
        _check_distinct(partition, replicas)
        # An existing replica may stay on a broker that is down.
        _check_known(partition, new_brokers[partition], brokers, ErrorCode.UNKNOWN_MEMBER_ID)
    factors = {**kept, **{p: len(replicas) for p, replicas in assignments.items() if p < undeleted}}
    if len(set(factors.values())) > 1:
        one = min(factors)
        other = next(p for p in sorted(factors) if factors[p] != factors[one])
        raise _refusal(
            f"leaves partition {one} with {factors[one]} replicas and partition {other} with {factors[other]}: all "
            "must have as many"
        )


def _check_replicas(assignments: Assignment, brokers: Collection[int], unknown: ErrorCode) -> None:
    for partition, replicas in sorted(assignments.items()):
        _check_distinct(partition, replicas)
        _check_known(partition, replicas, brokers, unknown)


def _check_distinct(partition: int, replicas: Sequence[int]) -> None:
    if not replicas or len(set(replicas)) != len(replicas):
        raise _refusal(
            f"of partition {partition} has the value {listed_ids(replicas)}: distinct brokers are needed"
        )


def _check_known(partition: int, replicas: Sequence[int], brokers: Collection[int], code: ErrorCode) -> None:
    unknown = sorted(set(replicas).difference(brokers))
    if unknown:
        raise _refusal(
            f"of partition {partition} names broker {unknown[0]}: the brokers that are up are "
            f"{listed_ids(sorted(brokers))}",
            code,
        )


def _check_factor(assignments: Assignment, factor: int, whose: str) -> None:
    for partition, replicas in sorted(assignments.items()):
        if len(replicas) != factor:
            raise _refusal(f"of partition {partition} has {len(replicas)} replicas, {whose} {factor}")


def _refusal(reason: str, code: ErrorCode = ErrorCode.INVALID_REPLICA_ASSIGNMENT) -> RequestError:
    return RequestError(code, f"assignments {reason}")


def _shown(assignments: Assignment) -> str:
    return listed_ids(sorted(assignments))


def listed_ids(numbers: Sequence[int]) -> str:
    """``[0, 3, 4]``; of more than 20 brokers or partitions the first, and how many others there are."""
    more = f", … {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"[{', '.join(str(number) for number in numbers[:_SHOWN])}{more}]"
