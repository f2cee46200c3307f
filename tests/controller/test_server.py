"""TLS of the HTTP server: what cannot work is refused before anything starts, by its key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from spark_ordered_kafka.controller.server import check_tls
from spark_ordered_kafka.controller.settings import TlsSettings
from spark_ordered_kafka.errors import ConfigError


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    directory, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued = authority.issue_cert("localhost")
    for name, blob in (("ca", authority.cert_pem), ("key", issued.private_key_pem)):
        blob.write_to_path(directory / f"{name}.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "certificate.pem")
    authority.issue_cert("other").private_key_pem.write_to_path(directory / "other.pem")
    paths = [str(directory / f"{name}.pem") for name in ("certificate", "key", "ca")]
    return TlsSettings(paths[0], paths[1], ca_location=paths[2], client_auth="required")


def test_what_fits_together_is_taken(tls: TlsSettings) -> None:
    check_tls(None)
    check_tls(tls)


@pytest.mark.parametrize(
    ("field", "file", "message"),
    [
        ("certificate_location", "none.pem", r"ssl\.certificate\.location .*No such file"),
        ("key_location", "none.pem", r"ssl\.key\.location .*No such file"),
        ("ca_location", "none.pem", r"ssl\.ca\.location .*No such file"),
        ("key_location", "other.pem", r"ssl\.key\.location .*is not the key of"),
        ("certificate_location", "key.pem", r"ssl\.certificate\.location"),
        ("ca_location", "key.pem", r"ssl\.ca\.location .*PEM"),
    ],
)
def test_what_does_not_is_named(tls: TlsSettings, field: str, file: str, message: str) -> None:
    changed: dict[str, Any] = {field: str(Path(tls.key_location).with_name(file))}
    with pytest.raises(ConfigError, match=message):
        check_tls(replace(tls, **changed))
