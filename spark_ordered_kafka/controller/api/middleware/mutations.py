"""A request that may change something, parsed before it reaches its route."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from spark_ordered_kafka.client.transport import IDEMPOTENCY_KEY
from spark_ordered_kafka.controller.api.http.bodies import models_of, parsed_json, require_json
from spark_ordered_kafka.controller.api.http.caller import Caller
from spark_ordered_kafka.controller.topics.idempotency import check_key
from spark_ordered_kafka.errors import invalid_request

VALIDATE_ONLY = "validate_only"
REASON = "reason"
MAX_REASON = 1000
"""Characters."""

_BOOLEAN = TypeAdapter(bool)
_AUDITED_BYTES = 16 * 1024
_AUDITED_TOPICS = 100
_MAX_NAME = 249
"""Characters of a topic's name in Kafka."""
_SHOWN = 100


@dataclass(frozen=True)
class Mutation:
    """``path_params`` are what the path names, by their names in the route's; ``query`` is as it was sent; ``parsed`` is the
    body's JSON, None without a body; ``key`` is the idempotency key."""

    route: APIRoute
    method: str
    path_params: Mapping[str, Any]
    query: str
    body: bytes
    parsed: Any
    caller: Caller
    key: str | None = None

    @staticmethod
    def of(scope: Scope, route: APIRoute, body: bytes, caller: Caller) -> Mutation:
        """Raises RequestError INVALID_REQUEST for a body that is not a JSON object or has another content type, and for an
        unknown or repeated query parameter."""
        headers, parsed = Headers(scope=scope), None
        if not models_of(route):
            body = b""  # ignored by the route, so neither parsed nor kept
        else:
            require_json(headers.get("content-type"))
            parsed = parsed_json(body)
            if not isinstance(parsed, dict):
                raise invalid_request(
                    f"the body has the value {str(parsed)[:100]!r}: a JSON object is needed"
                )
        query, key = scope["query_string"].decode("latin-1"), headers.get(IDEMPOTENCY_KEY)
        check_key(key)
        _check_query(route, query)
        _, matched = route.matches(scope)
        return Mutation(route, scope["method"], matched["path_params"], query, body, parsed, caller, key)

    def at(self, path_params: Mapping[str, Any]) -> Mutation:
        """The same with other values in its path."""
        return replace(self, path_params=path_params)

    @property
    def path(self) -> str:
        """The path as the route would write it, without the request's percent-encoding."""
        quoted = {name: quote(str(value), safe="") for name, value in self.path_params.items()}
        return self.route.path_format.format(**quoted)

    def scope(self, scope: Scope) -> Scope:
        """``scope`` of a request, so that its route reads what was parsed here."""
        return {**scope, "path": unquote(self.path), "raw_path": self.path.encode("latin-1")}

    @property
    def reason(self) -> str | None:
        """The query parameter ``reason``. Raises RequestError INVALID_REQUEST when it is empty or too long."""
        reason = QueryParams(self.query).get(REASON)
        if reason is None:
            return None
        if not 0 < len(reason) <= MAX_REASON or not reason.isprintable() or reason.isspace():
            raise invalid_request(
                f"reason has the value {reason[:100]!r}: one line of 1 to {MAX_REASON} printable characters is needed"
            )
        return reason

    @property
    def checks_only(self) -> bool:
        """Whether the request is a check that changes nothing."""
        if isinstance(self.parsed, dict) and self.parsed.get(VALIDATE_ONLY) is True and self._in_body:
            return True
        given = QueryParams(self.query).get(VALIDATE_ONLY)
        if given is None or not self._in_query:
            return False
        try:
            return _BOOLEAN.validate_python(given)
        except ValidationError:
            return False  # and the route refuses it

    def check(self, caller: Caller) -> Mutation | None:
        """The same as ``caller``'s request for a check; None: the route has no check."""
        if isinstance(self.parsed, dict) and self._in_body:
            parsed = {**self.parsed, VALIDATE_ONLY: True}
            return replace(self, parsed=parsed, body=to_json(parsed), caller=caller)
        if self._in_query:
            rest = self.without(VALIDATE_ONLY)
            asked = urlencode({VALIDATE_ONLY: "true"})
            return replace(self, query=f"{rest}&{asked}" if rest else asked, caller=caller)
        return None

    def without(self, parameter: str) -> str:
        """The query without one of its parameters."""
        return urlencode([pair for pair in QueryParams(self.query).multi_items() if pair[0] != parameter])

    @property
    def _in_body(self) -> bool:
        return any(VALIDATE_ONLY in model.model_fields for model in models_of(self.route))

    @property
    def _in_query(self) -> bool:
        return any(field.alias == VALIDATE_ONLY for field in self.route.dependant.query_params)

    def topics(self) -> list[str]:
        """The topics that it names."""
        named = [self.path_params["topic"]] if "topic" in self.path_params else []
        if isinstance(self.parsed, dict):
            lists = [self.parsed.get(name) for name in ("topics", "partitions", "replicas")]
            items = [item for one in lists if isinstance(one, list) for item in one]
            for item in [self.parsed, *items]:
                name = item.get("topic") if isinstance(item, dict) else item
                if isinstance(name, str):
                    named.append(name)
        return list(dict.fromkeys(named))

    def shown_topics(self) -> dict[str, Any]:
        """For the audit log: the topics, or of many the first ones and how many there are."""
        topics = self.topics()
        first = [topic[:_MAX_NAME] for topic in topics[:_AUDITED_TOPICS]]
        return (
            {"topics": first} if len(first) == len(topics) else {"topics": first, "topic_count": len(topics)}
        )

    def shown_body(self) -> Any:
        """For the audit log: the whole body, or of a long one its beginning, length and hash."""
        if len(self.body) <= _AUDITED_BYTES:
            return self.parsed
        return {
            "beginning": self.body[:_AUDITED_BYTES].decode("utf-8", "replace"),
            "bytes": len(self.body),
            "sha256": hashlib.sha256(self.body).hexdigest(),
        }


def _check_query(route: APIRoute, query: str) -> None:
    """Raises RequestError for unknown or repeated parameters: ignoring them would do something else than intended."""
    known = {REASON, *(field.alias for field in route.dependant.query_params)}
    seen = set[str]()
    for name, _ in QueryParams(query).multi_items():
        if name not in known:
            wrong = f"does not exist here: this request takes {', '.join(sorted(known))}"
        elif name in seen:
            wrong = "is there twice: give it once"
        else:
            seen.add(name)
            continue
        raise invalid_request(f"the query parameter {name[:_SHOWN]!r} {wrong}")
