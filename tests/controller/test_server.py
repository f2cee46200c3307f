"""TLS of the HTTP server: what cannot work is refused before anything starts, by its key."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from spark_ordered_kafka.controller import server
from spark_ordered_kafka.controller.server import Certificate, check_tls
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


def shown(context: ssl.SSLContext) -> bytes:
    """The certificate that a new connection gets."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    client = anyone.wrap_bio(to_client, to_server)
    answering = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, answering):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_a_renewed_certificate_is_shown_and_one_without_its_key_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = TlsSettings(str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))
    first, second, third = (trustme.CA().issue_cert("localhost") for _ in range(3))

    def write(certificate: trustme.LeafCert | None, key: trustme.LeafCert | None) -> None:
        # As another file, as cert-manager and kubelet do: no clock is too coarse to show that.
        blobs = (
            None if certificate is None else certificate.cert_chain_pems[0],
            None if key is None else key.private_key_pem,
        )
        for path, blob in zip((tls.certificate_location, tls.key_location), blobs, strict=True):
            if blob is None:
                Path(path).unlink(missing_ok=True)
            else:
                # While the former one is there: a file system gives the number of one that is gone to the next one.
                blob.write_to_path(f"{path}.new")
                Path(f"{path}.new").replace(path)

    def is_shown(expected: trustme.LeafCert) -> bool:
        pem = expected.cert_chain_pems[0].bytes().decode()
        return shown(certificate.context) == ssl.PEM_cert_to_DER_cert(pem)

    write(first, first)
    certificate = Certificate(tls)
    assert is_shown(first)
    write(second, second)
    certificate.renew()
    assert is_shown(second)
    for half in ((third, second), (third, None), (None, None)):
        write(*half)
        for _ in range(2):
            certificate.renew()
        assert is_shown(second), "what does not fit together is not shown"
    told = [one for one in caplog.records if one.name == server.__name__ and one.levelname == "ERROR"]
    assert len(told) == 3, "each is told once"
    write(third, third)
    certificate.renew()
    assert is_shown(third)
