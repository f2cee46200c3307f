"""Properties of the connections to controllers and brokers, from a file as Kafka's own tools take it (``--command-config``)."""

from __future__ import annotations

from pathlib import Path

from spark_ordered_kafka.credentials import NAMES, URL, ControllerCredentials, controller_credentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, urls

_OPTION = "--command-config"
# Without the value, which may be a secret.
_FORM = "lines of the form name=value are needed"


def connection(controller: str | None, path: Path | None) -> tuple[str, ControllerCredentials]:
    """The controllers' URLs and the client's credentials.

    Args:
        controller: ``--controller``; it wins over ``controller.url`` of the file.
        path: of the file.

    Raises:
        ConfigError: a value is wrong, or there is no URL.
    """
    given = {} if path is None else read_properties(path)
    in_file = given.pop(URL, None)
    option, value = ("--controller", controller) if controller else (URL, in_file)
    if value is None:
        raise ConfigError("--controller", None, f"give it, or {URL} in the file of {_OPTION}")
    found = urls(option, value)
    return found, controller_credentials(given, found)


def read_properties(path: Path) -> dict[str, str]:
    """Those of the connection to a controller of :func:`read_all`, which says what it raises."""
    return read_all(path)[0]


def read_all(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The properties of a file as ``java.util.Properties`` has them: ``name=value`` lines, ``#`` before comments.

    Returns:
        Those of the connection to a controller, and those of Kafka's clients.

    Raises:
        ConfigError: it cannot be read, or a property is neither.
    """
    # Here, since few commands are given a file.
    import javaproperties

    try:
        text = path.read_text(encoding="utf-8")
        pairs = [line for line in javaproperties.parse(text) if isinstance(line, javaproperties.KeyValue)]
    except OSError as error:
        raise ConfigError(_OPTION, str(path), f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(_OPTION, str(path), f"{_FORM} ({type(error).__name__})") from None
    found: dict[str, str] = {}
    for number, pair in enumerate(pairs, 1):
        # Java takes a blank as a delimiter, too; such a line is likelier a secret without its name. Nothing of it is shown.
        if pair.key in found or not {"=", ":"} & set(pair.source):
            problem = "twice" if pair.key in found else "without = or :"
            raise ConfigError(_OPTION, str(path), f"{_FORM} (property {number} is there {problem})")
        found[pair.key] = pair.value
    own = {name: value for name, value in found.items() if name == URL or name in NAMES}
    kafka = {name: value for name, value in found.items() if name not in own}
    for name in kafka:
        if not _is_kafkas(name):
            # Without its value: it may be a misspelt password.
            hint = f"the file may have {URL}, {', '.join(NAMES)}, and properties of Kafka's clients"
            raise ConfigError(f"{_OPTION}: property {name}", HIDDEN, hint)
    return own, kafka


def _is_kafkas(name: str) -> bool:
    """Whether it may be a property of Kafka's clients; whether it is right, a command that uses them says."""
    # Here, since few files have one.
    from spark_ordered_kafka.kafka.java_names import FIXED, REFUSED, RENAMED, SAME

    known = (*SAME, *RENAMED, *FIXED, *REFUSED)
    return name in known or name.startswith(("sasl.", "ssl.", "https.", "socket.", "log"))
