"""The controller's configuration file."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.controller.config import KEYS, controller_config, read_file
from spark_ordered_kafka.errors import ConfigError, ConfigErrors

EXAMPLE = Path(__file__).parents[2] / "conf" / "controller.toml"
NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "zookeeper.connect": "127.0.0.1:2181"}


def parse(**entries: Any) -> Any:
    named = {name.replace("__", "."): value for name, value in entries.items()}
    return controller_config({**NEEDED, **named}, default_host="here.example.com")


def written(directory: Path, text: str) -> Path:
    path = directory / "controller.toml"
    path.write_text(text)
    return path


class TestFile:
    def test_the_example_as_it_is(self) -> None:
        config = controller_config(read_file(EXAMPLE, {}), default_host="h")

        assert (config.host, config.port, config.settings.url) == ("127.0.0.1", 8090, "http://127.0.0.1:8090")
        assert config.settings.kafka == {
            "bootstrap.servers": "127.0.0.1:9092",
            "security.protocol": "PLAINTEXT",
        }
        assert config.settings.zookeeper.connect == "127.0.0.1:2181"
        assert not config.settings.authentication.required

    def test_the_example_explains_every_key(self) -> None:
        explained = set(re.findall(r"^#? ?([a-z.]+) = ", EXAMPLE.read_text(), re.MULTILINE))

        assert {name for name in explained if not name.startswith("kafka.")} == KEYS

    def test_shown_defaults_are_the_defaults(self) -> None:
        """What the example shows in comments, but for its examples, changes nothing."""
        shown = dict(re.findall(r"^# ([a-z.]+) = (\S+)$", EXAMPLE.read_text(), re.MULTILINE))
        numbers = {name: int(value) for name, value in shown.items() if value.isdecimal()}
        numbers.pop("retire.replication.factor")
        flags = {name: value == "true" for name, value in shown.items() if value in ("true", "false")}
        flags.pop("authentication.required")

        assert len(numbers) >= 9
        assert len(flags) >= 4
        assert parse(**numbers, **flags) == parse()

    def test_tables_and_dotted_names_are_the_same(self, tmp_path: Path) -> None:
        dotted = written(tmp_path, 'zookeeper.connect = "z:1"\nkafka.bootstrap.servers = "k:2"\n')
        first = read_file(dotted, {})
        tables = written(tmp_path, '[zookeeper]\nconnect = "z:1"\n[kafka]\nbootstrap.servers = "k:2"\n')

        assert (
            read_file(tables, {}) == first == {"zookeeper.connect": "z:1", "kafka.bootstrap.servers": "k:2"}
        )

    def test_references(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("s3cret\n")
        path = written(
            tmp_path, f'a = "${{env:NAME}}"\nb = "x${{file:{secret}}}y"\nc = ["${{env:NAME}}", "d"]\ne = 1\n'
        )

        assert read_file(path, {"NAME": "v"}) == {"a": "v", "b": "xs3crety", "c": ["v", "d"], "e": 1}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("port = ", "is not TOML"),
            ('a = "${env:MISSING}"', "there is no environment variable MISSING"),
            ('a = "${file:/nowhere/at/all}"', "/nowhere/at/all cannot be read"),
        ],
    )
    def test_wrong_files(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(message)):
            read_file(written(tmp_path, text), {})

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"--config has the value .*cannot be read: No such file"):
            read_file(tmp_path / "none.toml", {})


class TestEntries:
    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ({"zookeeper__connect": None}, "zookeeper.connect"),
            ({"zookeeper__connect": ""}, "zookeeper.connect has the value ''"),
            ({"zookeper__connect": "z:1"}, "unknown key zookeper.connect has the value 'z:1': did you mean zookeeper.c"),
            ({"zookeeper__sasl__pasword": "hush"}, "unknown key zookeeper.sasl.pasword has the value '********': did"),
            ({"kafka__sasl__pasword": "hush"}, "kafka.sasl.pasword has the value '********': the controller knows"),
            ({"controllerToken": "hush"}, "unknown key controllerToken has the value '********'"),
            ({"port": 0}, "port has the value 0"),
            ({"port": "8090"}, "port has the value '8090'"),
            ({"port": 70000}, "port has the value 70000"),
            ({"max__broker__partitions": -1}, "max.broker.partitions has the value -1"),
            ({"max__broker__partitions": 2**31}, "max.broker.partitions has the value 2147483648"),
            ({"request__timeout__ms": 0}, "request.timeout.ms has the value 0"),
            ({"zookeeper__session__timeout__ms": 499}, "zookeeper.session.timeout.ms has the value 499"),
            ({"log__format": "xml"}, "log.format has the value 'xml'"),
            ({"review__required": True}, "review.required has the value True: without authentication"),
            ({"host": "0.0.0.0"}, "authentication.required has the value 'true, since host is 0.0.0.0'"),
            ({"authentication__required": True}, "nobody could get in"),
            ({"authentication__kafka__mechanism": "GSSAPI"}, "authentication.kafka.mechanism has the value 'GSSAPI'"),
            ({"authorization__super__users": ["admin"]}, "authorization.super.users has the value 'admin'"),
            ({"ssl__certificate__location": "/c"}, "ssl.key.location is missing: ssl.certificate.location needs it"),
            ({"ssl__client__auth": "required"}, "ssl.certificate.location is missing"),
            ({"zookeeper__sasl__username": "u"}, "zookeeper.sasl.password is missing"),
            ({"zookeeper__digest__password": "p"}, "zookeeper.digest.username is missing"),
            ({"zookeeper__ssl__ca__location": "/c"}, "zookeeper.ssl.enabled has the value False"),
            ({"allowed__hosts": ["http://lb.example.com"]}, "allowed.hosts has the value 'http://lb.example.com'"),
            ({"allowed__hosts": "lb.example.com"}, "allowed.hosts has the value 'lb.example.com': Input should be a valid"),
            ({"allowed__hosts": ["lb.example.com:80"]}, "allowed.hosts has the value 'lb.example.com:80'"),
            ({"advertised__url": "here"}, "advertised.url has the value 'here'"),
            ({"kafka__bootstrap__servers": "nowhere"}, "kafka.bootstrap.servers has the value 'nowhere'"),
            ({"kafka__sasl__password": ["x"]}, "kafka.sasl.password has the value"),
        ],
    )  # fmt: skip
    def test_refused(self, entries: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(message)):
            parse(**entries)

    def test_all_that_is_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        path = written(tmp_path, 'a = "${env:MISSING}"\nb = "${file:/nowhere/at/all}"\n')
        with pytest.raises(ConfigErrors) as refused:
            read_file(path, {})
        assert [error.option for error in refused.value.errors] == ["a", "b"]
        with pytest.raises(ConfigErrors) as refused:
            parse(
                port=0,
                colour="red",
                healing__mode="maybe",
                autoscale__interval__ms=1,
                kafka__socket__timeout__ms="1",
                kafka__bootstrap__servers="nowhere",
            )
        assert {error.option for error in refused.value.errors} == {
            *("port", "unknown key colour", "healing.mode", "autoscale.interval.ms"),
            *("kafka.socket.timeout.ms", "kafka.bootstrap.servers"),
        }
        with pytest.raises(ConfigErrors) as refused:
            parse(
                ssl__certificate__location="/c",
                ssl__key__location="/k",
                advertised__url="http://here:1",
                webhook__token__file="/t",
                authentication__required=True,
            )
        assert {error.option for error in refused.value.errors} == {
            *("ssl.certificate.location", "ssl.key.location", "advertised.url"),
            *("webhook.url", "authentication.required"),
        }

    def test_a_proxy_may_add_tls_but_not_end_that_of_the_controller(self, tmp_path: Path) -> None:
        assert parse(advertised__url="https://here:1/").settings.url == "https://here:1"
        for name in ("certificate", "key"):
            (tmp_path / name).touch()
        tls = {f"ssl__{name}__location": str(tmp_path / name) for name in ("certificate", "key")}
        with pytest.raises(
            ConfigError, match=r"advertised\.url has the value 'http://here:1': a URL such as https"
        ):
            parse(advertised__url="http://here:1", **tls)

    @pytest.mark.parametrize("missing", NEEDED)
    def test_needed(self, missing: str) -> None:
        entries = {name: value for name, value in NEEDED.items() if name != missing}
        with pytest.raises(ConfigError, match=f"{re.escape(missing)} is missing"):
            controller_config(entries, default_host="h")

    def test_a_password_is_not_shown(self) -> None:
        with pytest.raises(ConfigError) as caught:
            parse(zookeeper__sasl__username="u", zookeeper__sasl__password=12345)
        assert "12345" not in str(caught.value)
        with pytest.raises(ConfigError) as caught:
            parse(kafka__sasl__password=["12345"])
        assert "12345" not in str(caught.value)
        settings = parse(
            kafka__security__protocol="SASL_SSL",
            kafka__sasl__mechanism="PLAIN",
            kafka__sasl__username="u",
            kafka__sasl__password="s3cret",
            zookeeper__sasl__username="u",
            zookeeper__sasl__password="s3cret",
        )
        assert "s3cret" not in repr(settings)

    @pytest.mark.parametrize(
        ("host", "url"),
        [
            ("127.0.0.1", "http://127.0.0.1:8090"),
            ("::1", "http://[::1]:8090"),
            ("localhost", "http://localhost:8090"),
            ("0.0.0.0", "http://here.example.com:8090"),
            ("::", "http://here.example.com:8090"),
        ],
    )
    def test_the_url_others_are_told(self, host: str, url: str) -> None:
        assert parse(host=host, authentication__required=False).settings.url == url

    @pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "10.1.2.3"])
    @pytest.mark.parametrize(
        "method",
        [
            {"authentication__kafka__mechanism": "PLAIN"},
            {"authentication__tokens__file": "tokens"},
            {"ssl__client__auth": "requested"},
            {"ssl__client__auth": "required"},
        ],
    )
    def test_a_method_of_authentication_is_required_wherever_the_controller_listens(
        self, tmp_path: Path, host: str, method: dict[str, str]
    ) -> None:
        files = {name: tmp_path / name for name in ("certificate", "key", "ca")}
        for file in files.values():
            file.touch()
        tls = {f"ssl__{name}__location": str(file) for name, file in files.items()}
        assert parse(host=host, **method, **tls).settings.authentication.required
        given = parse(host=host, authentication__required=False, **method, **tls)
        assert not given.settings.authentication.required

    def test_where_review_is_required_nobody_is_two_principals(self, tmp_path: Path) -> None:
        for name in ("certificate", "key", "ca"):
            (tmp_path / name).touch()
        tls = {f"ssl__{name}__location": str(tmp_path / name) for name in ("certificate", "key", "ca")}
        ways = [
            {"authentication__kafka__mechanism": "PLAIN"},
            {"authentication__tokens__file": "tokens"},
            {"ssl__client__auth": "requested"},
        ]
        for one in ways:
            assert parse(review__required=True, **one, **tls).settings.review_required
        for one, other in itertools.permutations(ways, 2):
            with pytest.raises(
                ConfigError, match=r"review\.required .* are set: who can prove in two ways"
            ) as found:
                parse(review__required=True, **one, **other, **tls)
            for name in (*one, *other):
                assert name.replace("__", ".") in str(found.value)
            assert not parse(**one, **other, **tls).settings.review_required

    def test_without_a_method_loopback_lets_everybody_in(self) -> None:
        assert not parse(host="::1").settings.authentication.required

    def test_names_by_which_it_is_asked(self) -> None:
        settings = parse(allowed__hosts=["lb.example.com", "fd00::8"]).settings
        assert settings.allowed_hosts == {"lb.example.com", "fd00::8", "127.0.0.1", "here.example.com"}

    def test_times_are_given_in_milliseconds(self) -> None:
        settings = parse(change__closing__timeout__ms=1500, zookeeper__session__timeout__ms=2500).settings
        assert (settings.timing.closing, settings.zookeeper.session_timeout) == (1.5, 2.5)
