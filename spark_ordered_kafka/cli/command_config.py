"""Properties of the connection to the controller, from a file as Kafka's own tools take it (``--command-config``)."""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path

from spark_ordered_kafka.credentials import NAMES, URL, ControllerCredentials, controller_credentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, urls

_OPTION = "--command-config"
_SECTION = "properties"


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
    """The properties of a file: ``name=value`` lines, values as they are, ``#`` before comments.

    Raises:
        ConfigError: it cannot be read, or a property is none of the connection to a controller.
    """
    parser = ConfigParser(
        delimiters=("=", ":"),
        comment_prefixes=("#", "!"),
        interpolation=None,
        default_section="",
        strict=True,
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    try:
        parser.read_string(f"[{_SECTION}]\n{path.read_text(encoding='utf-8')}", source=str(path))
    except OSError as error:
        raise ConfigError(_OPTION, str(path), f"the file cannot be read: {error.strerror}") from error
    except (ConfigParserError, UnicodeDecodeError) as error:
        # Without the value, which may be a secret.
        hint = f"lines of the form name=value are needed ({type(error).__name__})"
        raise ConfigError(_OPTION, str(path), hint) from None
    found = dict(parser[_SECTION])
    for name in found:
        if name != URL and name not in NAMES:
            # Without its value: it may be a misspelt password.
            hint = f"the file may have {URL}, {', '.join(NAMES)}"
            raise ConfigError(f"{_OPTION}: property {name}", HIDDEN, hint)
    return found
