"""Names that the shell completes: topics and brokers from the controllers, groups from the brokers.

A shell shows no errors, so where a server does not answer nothing is completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_ordered_kafka.client.controller import ControllerClient

_PATIENCE = 2.0


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Topics under management."""

    def names() -> list[str]:
        with _controller(context) as client:
            return [one.topic for one in client.topics().topics]

    return _beginning(names, incomplete)


def complete_broker(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of brokers."""

    def names() -> list[str]:
        with _controller(context) as client:
            return [str(one.id) for one in client.brokers().brokers]

    return _beginning(names, incomplete)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups, without ledgers."""

    def names() -> list[str]:
        _choose_profile(context)
        from spark_ordered_kafka.cli.kafka_connection import broker_conf
        from spark_ordered_kafka.client.group_admin import GroupAdmin

        given: dict[str, Any] = context.params
        # Of `groups describe`, which itself asks the controllers, too.
        servers = given.get("bootstrap_server") or os.environ.get("BOOTSTRAP_SERVERS")
        conf = broker_conf(servers, given.get("command_config"))
        return [one.group for one in GroupAdmin(conf, timeout=_PATIENCE).groups() if not one.is_ledger]

    return _beginning(names, incomplete)


@contextmanager
def _controller(context: typer.Context) -> Iterator[ControllerClient]:
    from spark_ordered_kafka.cli.command_config import connection
    from spark_ordered_kafka.client.controller import ControllerClient

    _choose_profile(context)
    given: dict[str, Any] = context.params
    path: Path | None = given.get("command_config")
    urls, credentials = connection(given.get("controller"), path)
    with ControllerClient(urls, timeout=_PATIENCE, retry_for=0.0, credentials=credentials) as client:
        yield client


def _choose_profile(context: typer.Context) -> None:
    # The command itself, which would choose it, is not called.
    from spark_ordered_kafka.cli.profile_store import VARIABLE, choose

    choose(context.params.get("profile") or os.environ.get(VARIABLE))


def _beginning(names: Callable[[], list[str]], incomplete: str) -> list[str]:
    from spark_ordered_kafka.errors import OrderedKafkaError

    try:
        return [name for name in names() if name.startswith(incomplete)]
    except OrderedKafkaError:
        return []
