"""What ``reassign execute`` and ``cancel`` tell, of answers that a controller gives."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from spark_ordered_kafka.cli.common import OutputFormat
from spark_ordered_kafka.cli.reassign import _begin
from spark_ordered_kafka.cli.reassign_outcomes import end_as_refused
from spark_ordered_kafka.client.schemas import (
    PartitionResult,
    ReassignmentRequest,
    ReassignmentResult,
    Verification,
    VerifiedPartition,
    VerifyRequest,
)
from spark_ordered_kafka.errors import ErrorCode


class Answering:
    """A client of a controller that takes every rollback, with a warning."""

    def reassign(self, request: ReassignmentRequest) -> ReassignmentResult:
        rows = [PartitionResult(topic="t", partition=0)]
        request_id = None if request.validate_only else 7
        return ReassignmentResult(request_id=request_id, partitions=rows, warnings=["t-1 is gone"])

    def verify_reassignment(self, request: VerifyRequest) -> Verification:
        rows = [
            VerifiedPartition(
                topic=row.topic,
                partition=row.partition,
                status="differs",
                replicas=[],
                target=row.replicas,
                log_dirs=[],
            )
            for row in request.partitions
        ]
        return Verification(complete=False, partitions=rows)


def test_a_rollback_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = Answering()
    assert _begin(client, ReassignmentRequest(rollback=3), OutputFormat.TABLE).request_id == 7
    told = capsys.readouterr()
    assert told.err == "warning: t-1 is gone\n"
    assert "Request id: 7" in told.out


def test_a_cancel_of_what_has_ended_does_not_tell_each_of_thousands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    rows = [
        PartitionResult(
            topic="t",
            partition=p,
            error_code=code,
            error=code.name,
            error_message=f"partition t-{p} has ended",
        )
        for p in range(5_000)
    ]
    with pytest.raises(typer.Exit):
        end_as_refused(ReassignmentResult(request_id=7, partitions=rows), OutputFormat.TABLE)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: NO_REASSIGNMENT_IN_PROGRESS: partition t-0 has ended"
    assert lines[-1] == "error: 4980 more, which --output json has"
    assert len(lines) == 21
