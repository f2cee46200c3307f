"""Programs that have broken a promise: each is run again with every test run."""

from __future__ import annotations

from tests.programs import spark_steps
from tests.programs.operator_requests import Request
from tests.programs.operators import Turn
from tests.programs.spark_steps import Delete, Job, Run, SparkProgram, Tamper
from tests.programs.steps import Act, Consume, Member, Program, Seek, Write

_WRITE = Write("w0", "a", ("k0", "k1", "k2"), 4)

FOUND = {
    # Its offsets were refused: librdkafka commits nothing more once a member that others wait for is being closed.
    "a member is closed while another one was about to join": Program(
        (Member(auto=True), Member()),
        (_WRITE, Consume(0, 2, 1.0), Consume(1, 2, 0.0), Act("c1", "close"), Act("c0", "close")),
    ),
    # The judge took it for a violation that the record behind which it seeks cannot be committed.
    "the last record is not committed before it comes again": Program(
        (Member(), Member()), (_WRITE, Consume(0, 4, 60.0), Seek(0, 3), Act("c0", "commit last"))
    ),
    # The producer refers to a consumer that is closed until the offsets are committed, which was taken for a leak.
    "a consumer ends before its offsets are committed": Program(
        (Member(), Member()), (_WRITE, Consume(0, 2, 1.0), Act("c1", "send offsets"), Act("c1", "close"))
    ),
    # The question before a commit was not answered any more once librdkafka was being closed.
    "a static member commits what is taken from it as it is closed": Program(
        (Member(commits_last=True, tuned=("static",)), Member()),
        (_WRITE, Consume(0, 4, 60.0), Act("c0", "close")),
    ),
    # A commit without its id, which it had given up, ended it for good (D-499).
    "a static member works for longer than its group waits": Program(
        (Member(tuned=("static", "slow")), Member()),
        (_WRITE, Consume(0, 4, 60.0), Act("c0", "work for long"), Act("c0", "commit"), Consume(0, 100, 1.0)),
    ),
    # The judge did not know that the producer takes the consumer back before the consumer is closed.
    "both end by an exception, and the consumer commits what is taken from it": Program(
        (Member(commits_last=True), Member()),
        (_WRITE, Consume(0, 4, 60.0), Act("c0", "send offsets"), Act("c0", "fail both")),
    ),
}

_KEYS = ("k0", "k1", "k2", "k3", "k4")
_SKEWED = spark_steps.Write(("k1", "k2", "k3", "k4") + ("k0",) * 20)

# What decides is which tasks end first: tests/integration/test_replays.py has each without a doubt.
FOUND_SPARK = {
    # Tasks that the query had not had before wrote, while the first one refused.
    "the writer of a deleted checkpoint, and more tasks": SparkProgram(
        Job("sink"),
        (
            spark_steps.Write(_KEYS, 3),
            Run("coalesce 1"),
            Tamper("delete and keep writer"),
            Run("repartition 5"),
        ),
    ),
    # Some tasks had committed under the old name, others did under the new one, and then neither name was right.
    "another writer in mid-batch": SparkProgram(
        Job("sink"),
        (
            _SKEWED,
            Run("repartition 5", event="task fails", at=10),
            Tamper("rename writer"),
            Run("repartition 5"),
        ),
    ),
    # The judge took a driver that had found nothing to read, and so ended alone, for one that ran beside another.
    "another driver with nothing to read": SparkProgram(
        Job("sink", named=False),
        (spark_steps.Write(_KEYS), Run(), Delete(100), Run(fail=False, event="another driver", at=1)),
    ),
    # The judge did not know that Spark's trigger "once" runs a batch again that was under way, and no other.
    "a batch under way, and a run of one batch": SparkProgram(
        Job("sink"),
        (spark_steps.Write(_KEYS, 12), Run(limit=20, event="task fails", at=3), Run(trigger="once")),
    ),
    # The judge did not count it as another writer in mid-batch, which nobody can notice of writes in foreachBatch (D-276).
    "the second write gets the name of the first in mid-batch": SparkProgram(
        Job("halves"),
        (spark_steps.Write(_KEYS, 4), Run(event="function fails", at=2), Run(shared=True)),
    ),
    # The model accepted one write's mismatch and forgot the other's, which an operator has set as well by then.
    "both writes of a batch are half committed when its input is gone": SparkProgram(
        Job("halves"),
        (spark_steps.Write(_KEYS, 3), Run(event="function fails", at=2), Delete(100), Run(fail=False)),
    ),
}
"""The same of Spark."""

_DELETED, _RELEASED = Request(0, "delete"), Request(1, "release")

FOUND_OPERATORS = {
    # Both were answered by success once, or one by an internal error.
    "a deletion and a release at once": [Turn((_DELETED, _RELEASED))],
    "a release and a deletion at once, and the topic again": [
        Turn((_RELEASED, _DELETED)),
        Turn((_DELETED,)),
        Turn((Request(0, "create"),)),
    ],
    # The one that begins waits, and the other one is answered meanwhile.
    "a change is begun twice": [
        Turn((Request(1, "alter", count=4, wait=False), Request(0, "alter", count=3)))
    ],
    # The change was refused with INVALID_REPLICA_ASSIGNMENT: the move was over before anybody looked for the reason.
    "a topic grows in the moment in which it is moved": [
        Turn((Request(0, "move", count=2, wait=False), Request(0, "alter", (0, 1), 3))),
    ],
    # The creation was answered by UNKNOWN_TOPIC_OR_PARTITION.
    "what is left of a topic is released and created at once": [
        Turn((Request(0, "erase", (1,)),)),
        Turn((Request(1, "release", (1,)), Request(0, "create", (1, 0)))),
    ],
    # The change was refused with INVALID_PARTITIONS, although nothing was wrong with it.
    "another tool makes the same partitions": [
        Turn((Request(0, "grow", (0,), 3), Request(0, "alter", count=3))),
    ],
    # The model took the answer, for which there is nothing to wait, for the end of the change.
    "what is ordered is to be ordered while its count changes": [
        Turn((Request(0, "alter", count=4, wait=False),)),
        Turn((Request(0, "configure", force=True),)),
        Turn((Request(0, "alter", count=3),)),
    ],
}
"""The same of operators."""
