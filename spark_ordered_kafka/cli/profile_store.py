"""Profiles: the connections to several clusters, each under a name, in a file of the user.

A command takes each value from its options, else from the environment, else from the profile. A login belongs to the addresses
beside it, so with another address the profile's is not used.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark_ordered_kafka.errors import ConfigError

VARIABLE: Final = "ORDERED_KAFKA_PROFILE"
COMMAND_CONFIG: Final = "command.config"
"""The property of a profile that names a file as ``--command-config`` does; properties beside it win over those in the file."""

_OPTION = "--profile"
_CURRENT, _PROFILES = "current", "profiles"
_LOCK_TIMEOUT = 30.0
"""Seconds for another command to change the file."""
_CONNECTING = frozenset({"controller", "bootstrap_server"})
# TOML knows no \x7f in strings, and JSON writes it as it is.
_DELETE = {0x7F: "\\u007f"}


@dataclass(frozen=True)
class Profiles:
    """What the file has: ``profiles`` by name, each with its properties, and the name of the one in use, if one is."""

    current: str | None = None
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, name: str, option: str = _OPTION) -> Mapping[str, str]:
        """The properties of a profile; raises ConfigError for an unknown one."""
        if name not in self.profiles:
            known = f"known are {', '.join(sorted(self.profiles))}" if self.profiles else "there are none"
            raise ConfigError(option, name, f"{known}; ordered-kafka profile create makes one")
        return self.profiles[name]


def profiles_file() -> Path:
    """Where the profiles are (XDG Base Directory Specification). Raises ConfigError where the user has no home directory."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification ignores relative paths.
    try:
        base = Path(given) if Path(given).is_absolute() else Path.home() / ".config"
    except RuntimeError as error:
        raise ConfigError("HOME", None, "profiles are kept there, or in XDG_CONFIG_HOME") from error
    return base / "ordered-kafka" / "profiles.toml"


def read_profiles() -> Profiles:
    """What the file has; nothing where there is none. Raises ConfigError for one that cannot be read."""
    try:
        path = profiles_file()
    except ConfigError:
        return Profiles()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        # Users of daemons often have /dev/null for a home directory.
        return Profiles()
    except OSError as error:
        raise ConfigError(str(path), None, f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        # Without its text, which may hold secrets.
        where = str(error).rpartition("(")[2].rstrip(")") if "(" in str(error) else "somewhere"
        raise ConfigError(str(path), None, f"this is no TOML: look {where}") from None
    current, profiles = content.pop(_CURRENT, None), content.pop(_PROFILES, {})
    wrong = [*content]
    if not isinstance(current, str | None):
        wrong.append(_CURRENT)
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise ConfigError(str(path), None, f"[{_PROFILES}.NAME] with properties is needed")
    if wrong:
        raise ConfigError(
            str(path), None, f"it may have {_CURRENT} and {_PROFILES}, not {', '.join(sorted(wrong))}"
        )
    return Profiles(current, {name: dict(_flat(path, one)) for name, one in profiles.items()})


def _flat(path: Path, table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Properties by their whole names: TOML takes the dots of a name without quotes for tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(path, value, f"{prefix}{name}.")
        elif isinstance(value, bool):
            yield prefix + name, str(value).lower()
        elif isinstance(value, str | int):
            yield prefix + name, str(value)
        else:
            raise ConfigError(f"{path}: {prefix}{name}", None, "a text is needed")


def written(profiles: Profiles) -> str:
    """The text of the file."""
    lines = ["# Written by `ordered-kafka profile`, which keeps no comments."]
    if profiles.current is not None:
        lines.append(f"{_CURRENT} = {_quoted(profiles.current)}")
    for name, properties in profiles.profiles.items():
        lines.append(f"\n[{_PROFILES}.{_quoted(name)}]")
        lines.extend(f"{_quoted(key)} = {_quoted(value)}" for key, value in properties.items())
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # A string of JSON is one of TOML, too.
    return json.dumps(text, ensure_ascii=False).translate(_DELETE)


def write_profiles(profiles: Profiles) -> Path:
    """Replace the file, whole or not at all; only its owner may read it. Raises ConfigError where that fails."""
    import tempfile

    # One that is a link stays one.
    path = profiles_file().resolve()
    try:
        content = written(profiles).encode()
    except UnicodeEncodeError:
        # Without its text, which may hold secrets; and nothing but UTF-8 could be read again.
        raise ConfigError(str(path), None, "the file cannot be written: what was given is no UTF-8") from None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made with the rights of its owner alone, in a directory that goes with it where that fails.
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as scratch:
            file = Path(scratch) / path.name
            file.touch(mode=0o600)
            file.write_bytes(content)
            file.replace(path)
    except OSError as error:
        raise ConfigError(str(path), None, f"the file cannot be written: {error.strerror}") from error
    return path


@contextmanager
def changing() -> Iterator[Profiles]:
    """What the file has, for as long as no other command may change it.

    Raises ConfigError for a file that cannot be used, and OrderedKafkaError where another command does not end.
    """
    from spark_ordered_kafka.locking import file_lock

    path = profiles_file().resolve()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(str(path.parent), None, f"it cannot be used: {error.strerror}") from error
    # Of its own: the file is replaced.
    with file_lock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_TIMEOUT, what=str(path)):
        yield read_profiles()


# -- in commands ------------------------------------------------------------------------------------------------------

_chosen: ContextVar[str | None] = ContextVar("profile", default=None)


def chosen_profile() -> tuple[str, Mapping[str, str]] | None:
    """Name and properties of the profile in use: of the option or the environment, else the current one; None without any.

    Raises ConfigError for an unknown one.
    """
    found = read_profiles()
    named = _chosen.get()
    if named is not None:
        return named, found.of(named)
    if found.current is None:
        return None
    return found.current, found.of(found.current, f"{profiles_file()}: {_CURRENT}")


def warn_of_variable(name: str, variable: str, value: str, own: str | None) -> None:
    """Say that the environment wins over a profile that was named, which is easily overlooked.

    Args:
        name: of the profile.
        value: what the command takes, from an option or the environment.
        own: the profile's value.
    """
    if _chosen.get() is not None and own is not None and os.environ.get(variable) == value:
        typer.echo(f"warning: {variable} wins over profile {name}: {value}, not {own}", err=True)


def complete_profile(incomplete: str) -> list[str]:
    """Names of profiles."""
    try:
        return [name for name in read_profiles().profiles if name.startswith(incomplete)]
    except ConfigError:
        return []


ProfileOption = Annotated[
    str | None,
    typer.Option(
        _OPTION,
        envvar=VARIABLE,
        metavar="NAME",
        help="Take the connections of this profile.",
        autocompletion=complete_profile,
        show_default="that of `profile use`",
    ),
]


def choose(name: str | None) -> None:
    """Let :func:`chosen_profile` give this one, for as long as the command runs or the shell completes."""
    _chosen.set(name)


def with_profile(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with ``--profile``, if it connects to anything."""
    signature = inspect.signature(command, eval_str=True)
    if not _CONNECTING & signature.parameters.keys():
        return command

    @functools.wraps(command)
    def choosing(*args: Any, profile: str | None, **options: Any) -> Any:
        before = _chosen.set(profile)
        try:
            return command(*args, **options)
        finally:
            _chosen.reset(before)

    option = inspect.Parameter(
        "profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ProfileOption
    )
    wrapper: Any = choosing
    wrapper.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])
    wrapper.__annotations__ = {**command.__annotations__, "profile": ProfileOption}
    return choosing
