"""Whose the controllers' znodes are: ACLs that give access to their user alone, also to znodes from before it."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.security import ACL, make_acl, make_digest_acl

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.requests import Deadline

_CHUNK = 1000
_ACL_MARK = "protected"

_log = logging.getLogger(__name__)


def acls(settings: ZooKeeperSettings) -> list[ACL]:
    """All rights for each user that the settings name, none for others; empty without a user."""
    found = []
    if settings.sasl_username is not None:
        found.append(make_acl("sasl", settings.sasl_username, all=True))
    if settings.digest_username is not None and settings.digest_password is not None:
        found.append(make_digest_acl(settings.digest_username, settings.digest_password, all=True))
    return found


def protect(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: Deadline) -> None:
    """Give ``root``, and all below it, to the settings' user, if there is one.

    Existing znodes get the ACL from the top down, each before its children are listed, so that others cannot add to the
    listed ones. A mark shows that all have it, and for which root (D-152).

    Raises what :func:`requests.result_of` raises, but NoNodeError: what is deleted meanwhile needs no ACL.
    """
    wanted = acls(settings)
    with suppress(NoNodeError):
        # The first answer also shows that SASL has succeeded.
        deadline.result(client.get_async(root), root)
    while wanted and not _is_protected(client, settings, root, deadline):
        _log.info("giving %s, and the znodes below it, their ACL", root)
        _create_root(client, root, wanted, deadline)
        level = [root]
        while level:
            # Listed after they have their ACL, so that later znodes come from permitted users only.
            below = [
                f"{path}/{name}"
                for path, names in _each(level, client.get_children_async, deadline)
                for name in names
            ]
            for _ in _each(below, lambda path: client.set_acls_async(path, wanted), deadline):
                pass
            level = below
        # A znode in it keeps users with rights on its parent from replacing the root.
        _write_mark(client, settings, root, deadline)


def _create_root(client: KazooClient, root: str, wanted: Sequence[ACL], deadline: Deadline) -> None:
    """Create the root, or give an existing one its ACL."""
    parent = root.rpartition("/")[0] or "/"
    try:
        deadline.result(client.ensure_path_async(parent), parent)
        deadline.result(client.create_async(root, b"", acl=wanted), root)
    except NodeExistsError:
        try:
            deadline.result(client.set_acls_async(root, wanted), root)
        except NoNodeError:
            _log.debug("%s was deleted: checking again", root)


def _is_protected(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: Deadline) -> bool:
    """Whether all existing znodes have their ACL, so that only their owners can have added any since.

    The root's ACL alone proves nothing: before the first controller, every user could have set it.
    """
    try:
        found, stat = deadline.result(client.get_acls_async(root), root)
        mark, _ = deadline.result(client.get_async(f"{root}/{_ACL_MARK}"), f"{root}/{_ACL_MARK}")
    except NoNodeError:
        return False
    return _same(found, acls(settings)) and hmac.compare_digest(mark, _mark(settings, stat.czxid))


def _write_mark(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: Deadline) -> None:
    path = f"{root}/{_ACL_MARK}"
    try:
        stat = deadline.result(client.exists_async(root), root)
        mark = _mark(settings, 0 if stat is None else stat.czxid)
        try:
            deadline.result(client.create_async(path, mark, acl=acls(settings)), path)
        except NodeExistsError:
            deadline.result(client.set_async(path, mark), path)
    except NoNodeError:
        _log.debug("%s was deleted: checking again", root)


def _mark(settings: ZooKeeperSettings, created: int) -> bytes:
    """A mark that only owners of the password can write, for the root created by the transaction ``created``."""
    password = settings.sasl_password or settings.digest_password or ""
    return hmac.new(password.encode(), f"{_ACL_MARK} {created}".encode(), "sha256").hexdigest().encode()


def _each(paths: Sequence[str], ask: Callable[[str], Any], deadline: Deadline) -> list[tuple[str, Any]]:
    """Read many znodes in batches; omits deleted ones."""
    found = []
    for start in range(0, len(paths), _CHUNK):
        asked = [(path, ask(path)) for path in paths[start : start + _CHUNK]]
        for path, pending in asked:
            try:
                found.append((path, deadline.result(pending, path)))
            except NoNodeError:
                continue
    return found


def _same(found: Sequence[ACL], wanted: Sequence[ACL]) -> bool:
    return {(acl.perms, acl.id) for acl in found} == {(acl.perms, acl.id) for acl in wanted}
