"""The outcome of a request, taken from its answer."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic_core import from_json

from spark_ordered_kafka.errors import ErrorCode, RequestError, refusal

_AUTHORIZATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_AUDITED_RESULTS = 100
_AUDITED_TEXT = 1000
_AUDITED_FIELDS = ("topic", "partition", "broker", "error", "error_message", "change_id", "review_id")


@dataclass(frozen=True)
class Outcome:
    """``status`` and ``content`` of an answer: one result, or one per topic or partition."""

    status: int
    content: bytes

    @property
    def parsed(self) -> Any:
        """The content's JSON; None when it is something else."""
        try:
            return from_json(self.content)
        except ValueError:
            return None

    @property
    def results(self) -> list[dict[str, Any]]:
        """Every result in the answer."""
        parsed = self.parsed
        if not isinstance(parsed, dict):
            return []
        for name in ("topics", "partitions", "replicas"):
            if isinstance(parsed.get(name), list):
                return [item for item in parsed[name] if isinstance(item, dict)]
        return [parsed]

    @property
    def refused(self) -> bool:
        """Whether every part of the request was refused."""
        failed = [result for result in self.results if result.get("error_code")]
        return self.status >= HTTPStatus.BAD_REQUEST or 0 < len(failed) == len(self.results)

    @property
    def unauthorized(self) -> bool:
        """Whether the caller lacks the right to any of it."""
        return any(result.get("error_code") in _AUTHORIZATION for result in self.results)

    def error(self) -> RequestError:
        """The first error in the answer; errors about rights come first."""
        for result in sorted(self.results, key=lambda result: result.get("error_code") not in _AUTHORIZATION):
            if result.get("error_code"):
                return refusal(result["error_code"], result["error"], result.get("error_message"))
        return RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer was {self.status}")

    def audited(self) -> dict[str, Any]:
        """Fields for the audit log. Of many results, errors come first, and the rest is cut."""
        results = sorted(self.results, key=lambda result: not result.get("error_code"))
        parsed = self.parsed
        begun = parsed.get("request_id") if isinstance(parsed, dict) else None
        return {
            "status": self.status,
            **({} if begun is None else {"reassignment": begun}),
            "results": [
                {name: _shown(result[name]) for name in _AUDITED_FIELDS if result.get(name) is not None}
                for result in results[:_AUDITED_RESULTS]
            ],
        }


def _shown(value: Any) -> Any:
    return value[:_AUDITED_TEXT] if isinstance(value, str) else value
