"""``ordered-kafka profile``: connections to several clusters under names, of which --profile, ORDERED_KAFKA_PROFILE or
``profile use`` chooses one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.cli import common, profile_store
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.profile_store import Profiles, complete_profile
from spark_ordered_kafka.credentials import URL
from spark_ordered_kafka.errors import ConfigError

app = command_group("profile")

_SERVERS = "bootstrap.servers"
_NAME = "NAME"

NameArgument = Annotated[
    str, typer.Argument(metavar=_NAME, help="Name of the profile.", autocompletion=complete_profile)
]


@app.command("list")
def list_profiles(output: common.OutputOption = common.OutputFormat.TABLE) -> None:
    """The profiles; the one in use has a star."""
    found = profile_store.read_profiles()
    if output.is_data:
        shown = {name: _shown(properties) for name, properties in found.profiles.items()}
        common.print_data({"current": found.current, "profiles": shown}, output)
        return
    common.print_table(
        ("", "NAME", "CONTROLLER", "BROKERS", "FILE"),
        [
            ("*" if name == found.current else "", name, *(_shown(one).get(key) for key in _COLUMNS))
            for name, one in found.profiles.items()
        ],
    )


_COLUMNS = (URL, _SERVERS, profile_store.COMMAND_CONFIG)


@app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{_NAME}]",
            help="Name of the profile.",
            show_default="the one in use",
            autocompletion=complete_profile,
        ),
    ] = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """The properties of a profile, without secrets."""
    found = profile_store.read_profiles()
    wanted = found.current if name is None else name
    if wanted is None:
        raise ConfigError(_NAME, None, "no profile is in use: name one, or see ordered-kafka profile use")
    properties = _shown(found.of(wanted, _NAME))
    if output.is_data:
        common.print_data({"name": wanted, "properties": properties}, output)
    else:
        common.print_table(("PROPERTY", "VALUE"), list(properties.items()))


@app.command()
def use(name: NameArgument) -> None:
    """Let commands use a profile that name none."""
    with profile_store.changing() as found:
        found.of(name, _NAME)
        profile_store.write_profiles(Profiles(name, found.profiles))
    typer.echo(f"profile {name} is in use")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar=_NAME, help="Name of the profile.")],
    # Not from the environment: it may be that of another cluster.
    controller_url: Annotated[
        str | None, typer.Option("--controller", metavar="URL[,URL...]", help="The controllers' URLs.")
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers.")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="A file with more properties, such as that of Kafka's tools; it is read at each use.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A property as in the file of --command-config; may be repeated. A secret is better in such a file: "
            "a shell keeps what is typed.",
        ),
    ] = None,
) -> None:
    """Make a profile, and use it from now on."""
    from spark_ordered_kafka.cli.command_config import check_properties, read_all
    from spark_ordered_kafka.parsing import servers as parsed_servers
    from spark_ordered_kafka.parsing import urls

    with profile_store.changing() as found:
        if not name or not name.isprintable() or name != name.strip():
            raise ConfigError(_NAME, name, "a name without blanks around it is needed")
        if name in found.profiles:
            raise ConfigError(
                _NAME, name, "there is one of this name: delete it first (ordered-kafka profile delete)"
            )
        given = common.parse_options("--set", properties or [], "sasl.username=alice")
        check_properties("--set", given)
        if controller_url is not None:
            given[URL] = urls("--controller", controller_url)
        if servers is not None:
            given[_SERVERS] = parsed_servers("--bootstrap-server", servers)
        if command_config is not None:
            read_all(command_config)
            given[profile_store.COMMAND_CONFIG] = str(command_config.absolute())
        if not given:
            raise ConfigError(
                "--controller",
                None,
                "a profile without any property says nothing: give it, --bootstrap-server or --command-config",
            )
        path = profile_store.write_profiles(Profiles(name, {**found.profiles, name: given}))
    typer.echo(f"profile {name} is in use; it is in {path}")


@app.command()
def delete(name: NameArgument) -> None:
    """Delete a profile."""
    with profile_store.changing() as found:
        found.of(name, _NAME)
        left = {other: one for other, one in found.profiles.items() if other != name}
        profile_store.write_profiles(Profiles(None if found.current == name else found.current, left))
    typer.echo(f"profile {name} is deleted" + ("; none is in use now" if found.current == name else ""))


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    from spark_ordered_kafka.parsing import shown

    return {name: str(shown(name, value)) for name, value in properties.items()}
