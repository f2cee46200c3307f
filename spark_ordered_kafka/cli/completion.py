"""Names that the shell completes: topics and brokers from the controllers, groups from the brokers.

A shell shows no errors, so where a server does not answer nothing is completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient

_PATIENCE = 2.0


def _completed(names: Callable[[typer.Context], list[str]]) -> Callable[[typer.Context, str], list[str]]:
    """Of names those that begin as what is typed."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from spark_ordered_kafka.cli.profile_store import VARIABLE, choose
        from spark_ordered_kafka.errors import OrderedKafkaError

        # The command itself, which would choose it, is not called.
        choose(context.params.get("profile") or os.environ.get(VARIABLE))
        try:
            return [name for name in names(context) if name.startswith(incomplete)]
        except OrderedKafkaError:
            return []

    return complete


@contextmanager
def _controller(context: typer.Context) -> Iterator[ControllerClient]:
    from spark_ordered_kafka.cli.command_config import connection
    from spark_ordered_kafka.client.controller import ControllerClient

    given: dict[str, Any] = context.params
    urls, credentials = connection(given.get("controller"), given.get("command_config"))
    with ControllerClient(urls, timeout=_PATIENCE, retry_for=0.0, credentials=credentials) as client:
        yield client


@_completed
def complete_topic(context: typer.Context) -> list[str]:
    """Topics under management."""
    with _controller(context) as client:
        return [one.topic for one in client.topics().topics]


@_completed
def complete_broker(context: typer.Context) -> list[str]:
    """Ids of brokers."""
    with _controller(context) as client:
        return [str(one.id) for one in client.brokers().brokers]


@_completed
def complete_group(context: typer.Context) -> list[str]:
    """Consumer groups, without ledgers."""
    from spark_ordered_kafka.cli.kafka_connection import broker_conf
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    given: dict[str, Any] = context.params
    # Of `groups describe`, which itself asks the controllers, too.
    servers = given.get("bootstrap_server") or os.environ.get("BOOTSTRAP_SERVERS")
    conf = broker_conf(servers, given.get("command_config"))
    return [one.group for one in GroupAdmin(conf, timeout=_PATIENCE).groups() if not one.is_ledger]
