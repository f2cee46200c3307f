"""librdkafka's judgement of properties, before anything is opened with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.client_log import SILENT
from spark_ordered_kafka.kafka.java_names import RENAMED
from spark_ordered_kafka.kafka.properties import (
    client_properties,
    consumer_properties,
    ledger_properties,
    producer_properties,
)
from spark_ordered_kafka.parsing import checked_text, raise_all, shown, together

# A name that librdkafka does not know may be one of these misspelt.
_SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
    "ssl.key.pem",
)


def check_properties(
    client: type[Consumer] | type[Producer],
    kafka: Mapping[str, Any],
    label: str = "",
    complete: Callable[[Mapping[str, Any]], dict[str, Any]] = client_properties,
) -> None:
    """Let librdkafka itself judge properties. Raises ConfigError with its words for all wrong ones.

    ``complete`` adds those that are not the user's; ``label`` stands before names in messages.
    """
    for name, value in kafka.items():
        # confluent-kafka's C code ends the process for text that is none in UTF-8, and cuts one off at NUL.
        checked_text(label, name)
        if isinstance(value, str):
            checked_text(f"{label}{name}", value)
    left, errors = dict(kafka), []
    if left.get("group.id") == "":
        # And for this.
        errors.append(ConfigError(f"{label}group.id", "", "the name of a consumer group"))
        del left["group.id"]
    while (said := _refusal(client, complete(left))) is not None:
        # librdkafka stops at the first, and names an alias by the name it stands for.
        culprit = next(
            (name for name in left if _refusal(client, complete(_without(left, name))) != said), None
        )
        if culprit is None:
            errors.append(ConfigError(f"{label}*", ", ".join(sorted(left)), f"librdkafka says: {said}"))
            break
        java = next((java for java, one in RENAMED.items() if one.name == culprit), None)
        hint = f"librdkafka says: {said}" + ("" if java is None else f"; Java's name of it is {java}")
        errors.append(ConfigError(f"{label}{culprit}", shown(culprit, left[culprit], _SECRETS), hint))
        left = _without(left, culprit)
    raise_all(errors)


def check_reader(connection: Connection) -> None:
    """:func:`check_properties` of the options ``kafka.*`` of a source."""
    check_properties(Consumer, connection.kafka, "option kafka.", consumer_properties)


def check_writer(kafka: Mapping[str, Any], label: str = "") -> None:
    """:func:`check_properties` of what a writer opens: transactional producers, and consumers of their ledgers."""
    together(
        {},
        partial(check_properties, Producer, kafka, label, lambda some: producer_properties(some, "judge")),
        partial(check_properties, Consumer, kafka, label, lambda some: ledger_properties(some, "judge")),
    )


def _without(properties: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in properties.items() if one != name}


def _refusal(client: type[Consumer] | type[Producer], properties: Mapping[str, Any]) -> str | None:
    needed = {"group.id": "judge"} if client is Consumer else {}
    try:
        client({**needed, **properties, "logger": SILENT}).close()
    except KafkaException as error:
        # A writer has clients of both kinds, which say the same.
        said = str(error.args[0].str()).strip()
        return said.removeprefix("Failed to create producer: ").removeprefix("Failed to create consumer: ")
    except (TypeError, ValueError) as error:
        return str(error)
    return None
