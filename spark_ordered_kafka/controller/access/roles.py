"""Roles, for clusters whose brokers have no authorizer: a file says who is viewer, operator or admin of what."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from spark_ordered_kafka.controller.access.acls import WILDCARD, Acl, AclTable, Operation, ResourceType
from spark_ordered_kafka.controller.access.files import toml_tables
from spark_ordered_kafka.errors import ConfigError

KEY = "authorization.roles.file"

_VIEWER: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_OPERATOR: Final = (
    *_VIEWER,
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.CLUSTER_ACTION,
)
_OPERATIONS: Final = {"viewer": _VIEWER, "operator": _OPERATOR, "admin": (Operation.ALL,)}

_Principal = Annotated[str, StringConstraints(pattern=r"^User:.+$")]
_TopicPattern = Annotated[str, StringConstraints(pattern=r"^([a-zA-Z0-9._-]{1,249}\*?|\*)$")]


class _Grant(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["viewer", "operator", "admin"]
    principals: Annotated[list[_Principal], Field(min_length=1)]
    topics: Annotated[list[_TopicPattern], Field(min_length=1)] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    grants: list[_Grant]


def role_table(text: str) -> AclTable:
    """The rights that a role file gives.

    It is TOML: a table ``[[grants]]`` per grant with ``role``, ``principals`` (``User:alice``; ``User:*`` for everyone who
    is authenticated; ``User:ANONYMOUS`` for callers without credentials) and, if it holds for some topics only, ``topics`` (names, or beginnings of names followed by ``*``).
    A *viewer* sees everything; an *operator* creates and alters, too, and with no ``topics`` acts on the cluster; an
    *admin* may also delete.

    Raises:
        ConfigError: the text is not of this form; names the place.
    """
    try:
        tables = toml_tables(text)
    except ValueError as error:
        raise ConfigError(KEY, "the file", f"it must be TOML: {error}") from error
    try:
        file = _File.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{KEY}: {where}", first["input"], first["msg"]) from error
    return AclTable((acl for grant in file.grants for acl in _acls(grant)), anonymous_is_anyone=False)


def _acls(grant: _Grant) -> list[Acl]:
    found = []
    for principal in grant.principals:
        for operation in _OPERATIONS[grant.role]:
            found.append(Acl(ResourceType.GROUP, WILDCARD, principal, operation))
            if grant.topics is None:
                found.append(Acl(ResourceType.TOPIC, WILDCARD, principal, operation))
                found.append(Acl(ResourceType.CLUSTER, WILDCARD, principal, operation))
                continue
            for pattern in grant.topics:
                name = pattern.removesuffix(WILDCARD)
                prefixed = pattern != name and name != ""
                found.append(
                    Acl(ResourceType.TOPIC, name or WILDCARD, principal, operation, prefixed=prefixed)
                )
    return found
