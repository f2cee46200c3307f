"""``ordered-kafka reviews``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.output import (
    CommandConfigOption,
    ControllerOption,
    OutputFormat,
    OutputOption,
    ReasonOption,
    connected,
    print_body,
    print_table,
    tell,
)
from spark_ordered_kafka.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import ReviewView

app = command_group("reviews")

_ReviewArgument = Annotated[
    int, typer.Argument(metavar="REVIEW", min=1, help="Its number, as `reviews list` shows it.")
]


@app.command("list")
def list_reviews(
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Requests that wait, and those decided about lately; the newest first."""
    with connected(controller, command_config=command_config) as client:
        found = client.reviews()
    if output is OutputFormat.JSON:
        print_body(found)
        return
    from spark_ordered_kafka.cli.units import shown_time

    rows = [
        (r.review_id, r.status, r.requested_by, shown_time(r.requested_at), f"{r.method} {r.path}", r.reason)
        for r in found.reviews
    ]
    print_table(("REVIEW", "STATUS", "REQUESTED BY", "AT", "REQUEST", "REASON"), rows)


@app.command()
def show(
    review: _ReviewArgument,
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """A request, and what became of it."""
    with connected(controller, command_config=command_config) as client:
        found = client.review(review)
    if output is OutputFormat.JSON:
        print_body(found)
        return
    from spark_ordered_kafka.cli.units import shown_time

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
    print_table(("REVIEW", str(review)), rows)


@app.command()
def approve(
    review: _ReviewArgument,
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Have a request of somebody else carried out, and show its answer."""
    with connected(controller, reason, command_config=command_config) as client:
        done = client.approve_review(review)
        _raise_if_failed(done)
    tell(done, f"review {review} is approved, and carried out: {json.dumps(done.answer)}", output)


@app.command()
def discard(
    review: _ReviewArgument,
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Give a request up: it is not carried out."""
    with connected(controller, reason, command_config=command_config) as client:
        done = client.discard_review(review)
    tell(done, f"review {review} is discarded", output)


def _raise_if_failed(done: ReviewView) -> None:
    if done.status != "failed":
        return
    answer = done.answer if isinstance(done.answer, dict) else {}
    results: list[dict[str, Any]] = answer.get("topics", [answer])
    first: dict[str, Any] = next((one for one in results if one.get("error_code")), {})
    code = ErrorCode(first.get("error_code", ErrorCode.UNKNOWN_SERVER_ERROR))
    reason = first.get("error_message") or "no reason given"
    raise RequestError(code, f"review {done.review_id} is approved, but its request was refused: {reason}")
