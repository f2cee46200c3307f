"""``ordered-kafka profile``, and which value a command takes: of an option, the environment or a profile."""

from __future__ import annotations

import pwd
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from spark_ordered_kafka.cli import app, profile_store
from spark_ordered_kafka.cli.command_config import connection, given_properties
from spark_ordered_kafka.cli.kafka_connection import client_conf
from spark_ordered_kafka.cli.profile_store import (
    Profiles,
    profiles_file,
    read_profiles,
    write_profiles,
    written,
)
from spark_ordered_kafka.errors import ConfigError
from tests.cli.test_command_config import commands
from tests.servers import TIMEOUT

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, and nothing in the environment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PROFILE", "CONTROLLER", "COMMAND_CONFIG"):
        monkeypatch.delenv(f"ORDERED_KAFKA_{name}", raising=False)
    monkeypatch.delenv("BOOTSTRAP_SERVERS", raising=False)
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["profile", *words])
    assert done.exit_code == code, done.output
    return done


def create(name: str, *words: str) -> None:
    run("create", name, *words)


def test_profiles_are_made_used_shown_and_deleted(home: Path) -> None:
    create("test", "--controller", "http://127.0.0.1:1/", "--bootstrap-server", "127.0.0.1:2")
    create(
        "prod",
        "--controller",
        "https://c:8090",
        "--set",
        "controller.token=hush",
        "--set",
        "sasl.password=hush",
    )
    assert read_profiles().current == "prod"
    listed = run("list").stdout.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["test", "http://127.0.0.1:1"], ["*", "prod"]]
    assert run("use", "test").stdout == "profile test is in use\n"
    for words in (
        ("show",),
        ("show", "prod"),
        ("show", "prod", "--output", "yaml"),
        ("list", "--output", "json"),
    ):
        assert "hush" not in run(*words).output
    assert "controller.token: '********'" in run("show", "prod", "--output", "yaml").stdout
    file = home / "ordered-kafka" / "profiles.toml"
    assert profiles_file() == file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert tomllib.loads(file.read_text())["profiles"]["prod"]["controller.token"] == "hush"
    assert "none is in use now" in run("delete", "test").stdout
    assert read_profiles() == Profiles(
        None,
        {"prod": {"controller.token": "hush", "sasl.password": "hush", "controller.url": "https://c:8090"}},
    )
    assert "no profile is in use" in run("show", code=2).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("use", "none"),
            "NAME has the value 'none': known are test; ordered-kafka profile create makes one",
        ),
        (("delete", "none"), "NAME has the value 'none'"),
        (("create", "test", "--controller", "http://c:1"), "there is one of this name"),
        (("create", "new"), "--controller is missing"),
        (("create", " ", "--controller", "http://127.0.0.1:1"), "NAME has the value ' '"),
        (("create", "new", "--controller", "ftp://c:1"), "--controller has the value 'ftp://c:1'"),
        (("create", "new", "--bootstrap-server", "c"), "--bootstrap-server has the value 'c'"),
        (("create", "new", "--set", "pasword=hush"), "--set: property pasword has the value '********'"),
        (("create", "new", "--command-config", "/none"), "the file cannot be read"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(words: tuple[str, ...], message: str) -> None:
    create("test", "--controller", "http://127.0.0.1:1")
    before = profiles_file().read_bytes()
    done = run(*words, code=2)
    assert message in done.stderr
    assert "hush" not in done.output
    assert profiles_file().read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("current = 'a\npassword = 'hush'", "this is no TOML: look at line 1"),
        ("current = 1", "it may have current and profiles, not current"),
        ("other = 1", "not other"),
        ("profiles = 1", "[profiles.NAME] with properties is needed"),
        ("[profiles.a]\n'controller.url' = [1]", "a text is needed"),
    ],
)
def test_a_file_that_is_wrong_is_named(text: str, message: str) -> None:
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_profiles()
    assert message in str(caught.value)
    assert str(profiles_file()) in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_file_may_be_written_by_hand() -> None:
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text(
        'current = "a"\n[profiles.a]\ncontroller.url = "http://127.0.0.1:1"  # mine\ncontroller.ssl.ca.location = "/ca"\n'
        "socket.timeout.ms = 1000\n"
    )
    assert given_properties(None, None, None) == (
        {"controller.url": "http://127.0.0.1:1", "controller.ssl.ca.location": "/ca"},
        {"socket.timeout.ms": "1000"},
    )


def test_options_win_over_the_environment_and_that_over_a_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create("test", "--controller", "http://127.0.0.1:1", "--set", "controller.token=mine")
    create("other", "--controller", "http://127.0.0.1:2")

    def tried(*words: str, **environment: str) -> str:
        # Nothing listens at these ports, and the error names the address.
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            done = CliRunner().invoke(app, ["controller", "list", *words])
        assert done.exit_code != 0
        return str(done.stderr)

    assert "127.0.0.1:2 " in tried()
    assert "127.0.0.1:1 " in tried("--profile", "test")
    assert "127.0.0.1:1 " in tried(ORDERED_KAFKA_PROFILE="test")
    assert "127.0.0.1:2 " in tried("--profile", "other", ORDERED_KAFKA_PROFILE="test")
    environment = {"ORDERED_KAFKA_CONTROLLER": "http://127.0.0.1:3"}
    assert "127.0.0.1:3 " in tried(**environment)
    assert "127.0.0.1:4 " in tried("--controller", "http://127.0.0.1:4", **environment)
    warned = tried("--profile", "test", **environment)
    assert "warning: ORDERED_KAFKA_CONTROLLER wins over profile test" in warned
    assert "127.0.0.1:3 " in warned
    file = home / "other.properties"
    file.write_text("controller.url=http://127.0.0.1:5\n")
    assert "127.0.0.1:5 " in tried("--profile", "test", "--command-config", str(file))
    assert "--profile has the value 'none': known are other, test" in tried("--profile", "none")


def test_a_login_goes_to_its_own_addresses_alone() -> None:
    create(
        "test",
        *("--controller", "https://c:1", "--bootstrap-server", "b:1"),
        *("--set", "controller.token=mine", "--set", "sasl.username=me"),
    )
    assert connection(None, None)[1].token == "mine"
    assert connection("https://c:1", None)[1].token == "mine"
    assert connection("https://elsewhere:1", None)[1].token is None
    whole = client_conf(None, None, None)
    assert (whole["sasl.username"], whole["bootstrap.servers"], whole["controller.url"]) == (
        "me",
        "b:1",
        "https://c:1",
    )
    assert "sasl.username" not in client_conf("elsewhere:1", None, None)


def test_a_file_that_a_profile_names_is_read_at_each_use(home: Path) -> None:
    file = home / "client.properties"
    file.write_text("controller.url=https://c:1\ncontroller.token=old\nbootstrap.servers=b:1\n")
    create("test", "--command-config", str(file), "--bootstrap-server", "b:2")
    file.write_text("controller.url=https://c:1\ncontroller.token=new\nbootstrap.servers=b:1\n")
    assert "new" not in profiles_file().read_text()
    assert connection(None, None)[1].token == "new"
    assert client_conf(None, None, None)["bootstrap.servers"] == "b:2"


def test_every_command_that_connects_has_the_option() -> None:
    found = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
        if not name.startswith("profile")
    }
    connecting = {name for name, options in found.items() if {"--controller", "--bootstrap-server"} & options}
    assert len(connecting) > 30
    assert [name for name in connecting if "--profile" not in found[name]] == []


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), max_size=3), st.none() | TEXTS)
def test_what_is_written_is_what_is_read(
    profiles: Mapping[str, Mapping[str, str]], current: str | None
) -> None:
    found = tomllib.loads(written(Profiles(current, profiles)))
    assert found.get("current") == current
    assert found.get("profiles", {}) == profiles


def test_a_text_that_is_no_utf8_is_refused_and_leaves_nothing(home: Path) -> None:
    create("test", "--controller", "http://127.0.0.1:1")
    before = profiles_file().read_bytes()
    # As the shell passes the byte ff.
    done = run("create", "new", "--set", "sasl.password=hush\udcff", code=2)
    assert "what was given is no UTF-8" in done.stderr
    assert "hush" not in done.output
    assert profiles_file().read_bytes() == before
    assert {path.name for path in profiles_file().parent.iterdir()} == {
        "profiles.toml",
        ".profiles.toml.lock",
    }


def test_a_file_that_cannot_be_replaced_leaves_no_secrets_beside_it(home: Path) -> None:
    profiles_file().mkdir(parents=True)
    with pytest.raises(ConfigError, match="the file cannot be written"):
        write_profiles(Profiles(None, {"a": {"sasl.password": "hush"}}))
    assert list(profiles_file().parent.iterdir()) == [profiles_file()]


@pytest.mark.long
def test_profiles_that_are_made_at_once_are_all_kept(home: Path) -> None:
    names = [f"p{number}" for number in range(8)]
    code = "import sys; from spark_ordered_kafka.cli import app; import spark_ordered_kafka.cli.profile; input(); app()"
    words = ("--bootstrap-server", "127.0.0.1:1")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, "profile", "create", name, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    # All are imported by the time they are told to go on, and meet in the file.
    for one in started:
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.close()
    assert [one.wait(TIMEOUT) for one in started] == [0] * len(names)
    assert sorted(read_profiles().profiles) == names


def test_a_command_that_does_not_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    create("test", "--controller", "http://127.0.0.1:1")
    monkeypatch.setattr(profile_store, "_LOCK_TIMEOUT", 0.1)
    with profile_store.changing():
        done = run("use", "test", code=1)
    assert f"{profiles_file()} is in use by another process, which did not finish" in done.stderr
    run("use", "test")


def test_commands_do_without_what_only_unix_has(home: Path) -> None:
    code = "import sys; sys.modules['fcntl'] = None; from spark_ordered_kafka.cli import app; app()"
    words = ("profile", "create", "test", "--controller", "http://127.0.0.1:1")
    subprocess.run([sys.executable, "-c", code, *words], check=True, timeout=TIMEOUT)
    assert set(read_profiles().profiles) == {"test"}


def test_a_user_without_a_home_has_no_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/dev/null")
    assert connection("http://127.0.0.1:1", None)[0] == "http://127.0.0.1:1"

    def unknown(_: int) -> None:
        raise KeyError

    # A container's user may be a number that has no entry in passwd.
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert connection("http://127.0.0.1:1", None)[0] == "http://127.0.0.1:1"
    done = run("create", "test", "--controller", "http://127.0.0.1:1", code=2)
    assert done.stderr == "error: HOME is missing: profiles are kept there, or in XDG_CONFIG_HOME\n"
