"""``ordered-kafka reviews``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.errors import ErrorCode, RequestError, error_name, refusal

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import ReviewView

app = command_group("reviews")

_ReviewArgument = Annotated[
    int, typer.Argument(metavar="REVIEW", min=1, help="Its number, as `reviews list` shows it.")
]


@app.command("list")
def list_reviews(
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Pending requests, and those decided recently; the newest first."""
    from spark_ordered_kafka.cli.units import shown_time

    with common.connected(controller, command_config=command_config) as client:
        found = client.reviews()
    rows = [
        (r.review_id, r.status, r.requested_by, shown_time(r.requested_at), f"{r.method} {r.path}", r.reason)
        for r in found.reviews
    ]
    common.print_rows(found, ("REVIEW", "STATUS", "REQUESTED BY", "AT", "REQUEST", "REASON"), rows, output)


@app.command()
def show(
    review: _ReviewArgument,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """A request and its outcome."""
    from spark_ordered_kafka.cli.units import shown_time

    with common.connected(controller, command_config=command_config) as client:
        found = client.review(review)
    query = f"?{found.query}" if found.query else ""
    rows = [
        ("status", found.status),
        ("request", f"{found.method} {found.path}{query}"),
        ("body", json.dumps(found.body)),
        ("reason", found.reason),
        ("requested by", f"{found.requested_by}, {shown_time(found.requested_at)}"),
        ("expires", shown_time(found.expires_at)),
        ("decided by", found.decided_by),
        (
            "answer",
            None if found.answer_status is None else f"{found.answer_status} {json.dumps(found.answer)}",
        ),
    ]
    common.print_rows(found, ("REVIEW", str(review)), rows, output)


@app.command()
def approve(
    review: _ReviewArgument,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Approve another principal's request: carry it out and show its answer."""
    with common.connected(controller, reason, command_config=command_config) as client:
        done = client.approve_review(review)
        _raise_if_failed(done)
    what = "approved, and carried out" if done.status == "done" else done.status
    common.report(done, f"review {review} is {what}: {json.dumps(done.answer)}", output)


@app.command()
def discard(
    review: _ReviewArgument,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Discard a request: it is not carried out."""
    with common.connected(controller, reason, command_config=command_config) as client:
        done = client.discard_review(review)
    common.report(done, f"review {review} is discarded", output)


def _raise_if_failed(done: ReviewView) -> None:
    if done.status != "failed":
        return
    answer = done.answer if isinstance(done.answer, dict) else {}
    results: list[dict[str, Any]] = answer.get("topics", [answer])
    first: dict[str, Any] = next((one for one in results if one.get("error_code")), {})
    code = first.get("error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
    error = refusal(code, first.get("error") or error_name(code), first.get("error_message"))
    raise RequestError(
        error.code, f"review {done.review_id} is approved, but its request was refused: {error.message}"
    )
