"""Properties of the connections to controllers and brokers, from a file as Kafka's own tools take it (``--command-config``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spark_ordered_kafka.cli.profile_store import COMMAND_CONFIG, chosen_profile, warn_of_variable
from spark_ordered_kafka.credentials import NAMES, URL, ControllerCredentials, controller_credentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, urls

_OPTION = "--command-config"
_SERVERS = "bootstrap.servers"
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
    given, _ = given_properties(path, controller, None)
    found = urls("--controller" if controller else URL, address("--controller", controller, URL, given))
    given.pop(URL, None)
    return found, controller_credentials(given, found)


def address(option: str, value: str | None, name: str, given: Mapping[str, str]) -> str:
    """Of servers: the option's value, or else the property ``name``. Raises ConfigError where neither is given."""
    found = value or given.get(name)
    if found is None:
        raise ConfigError(option, None, f"give it, or {name} in the file of {_OPTION} or in a profile")
    return found


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
    return check_properties(_OPTION, found)


def check_properties(source: str, found: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Those of the connection to a controller, and those of Kafka's clients.

    Raises ConfigError, which names ``source``, for a property that is neither.
    """
    own = {name: value for name, value in found.items() if name == URL or name in NAMES}
    kafka = {name: value for name, value in found.items() if name not in own}
    for name in kafka:
        if not _is_kafkas(name):
            # Without its value: it may be a misspelt password.
            hint = f"it may have {URL}, {', '.join(NAMES)}, and properties of Kafka's clients"
            raise ConfigError(f"{source}: property {name}", HIDDEN, hint)
    return own, kafka


def given_properties(
    path: Path | None, controller: str | None, servers: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """As :func:`read_all`: of the file, which stands in the place of a profile, or else of the profile in use.

    Args:
        path: ``--command-config``.
        controller: ``--controller``; where the profile has another one, its login at the controllers is left out.
        servers: ``--bootstrap-server``; as for ``controller``, with the login at the brokers.
    """
    if path is not None:
        return read_all(path)
    profile = chosen_profile()
    if profile is None:
        return {}, {}
    name, properties = profile
    given = dict(properties)
    file = given.pop(COMMAND_CONFIG, None)
    own, kafka = check_properties(f"profile {name}", given)
    if file is not None:
        of_file = read_all(Path(file).expanduser())
        own, kafka = of_file[0] | own, of_file[1] | kafka
    if controller and controller != own.get(URL):
        warn_of_variable(name, "ORDERED_KAFKA_CONTROLLER", controller, own.get(URL))
        own = {}
    if servers and servers != kafka.get(_SERVERS):
        warn_of_variable(name, "BOOTSTRAP_SERVERS", servers, kafka.get(_SERVERS))
        kafka = {}
    return own, kafka


def _is_kafkas(name: str) -> bool:
    """Whether it may be a property of Kafka's clients; whether it is right, a command that uses them says."""
    # Here, since few files have one.
    from spark_ordered_kafka.kafka.java_names import FIXED, REFUSED, RENAMED, SAME

    known = (*SAME, *RENAMED, *FIXED, *REFUSED)
    return name in known or name.startswith(("sasl.", "ssl.", "https.", "socket.", "log"))
