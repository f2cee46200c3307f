"""Principals of TLS clients, named as Kafka names them."""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

# The keywords of RFC 2253; Java's X500Principal.getName() writes every other attribute as OID and hexadecimal value.
_KEYWORDS: Final = frozenset(
    {
        NameOID.COMMON_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.ORGANIZATION_NAME,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.COUNTRY_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT,
        NameOID.USER_ID,
    }
)
_ENCODINGS: Final = ("utf-8", "utf-16-be", "utf-32-be", "latin-1")


def principal_of(certificate: bytes) -> str:
    """``User:`` and the subject of a certificate (DER), written by RFC 2253 as Kafka's default principal builder does.

    Raises:
        ValueError: it is no certificate, or its subject is empty, or cannot be written so or printed.
    """
    subject = x509.load_der_x509_certificate(certificate).subject
    if not subject.rdns:
        raise ValueError("the certificate's subject is empty")
    name = ",".join("+".join(map(_written, rdn)) for rdn in reversed(subject.rdns))
    if not name.isprintable():
        raise ValueError(f"the certificate's subject {name!r} cannot be printed")
    return f"User:{name}"


def _written(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid in _KEYWORDS:
        keyword, _, text = attribute.rfc4514_string().partition("=")
        # Java escapes more than RFC 2253 requires.
        return keyword + "=" + text.replace("=", r"\=")
    # The value in DER is the end of a name that has this attribute only.
    name = x509.Name([attribute]).public_bytes()
    value = attribute.value
    contents = [value] if isinstance(value, bytes) else [value.encode(encoding) for encoding in _ENCODINGS]
    for content in contents:
        length = len(content)
        if name.endswith(content) and length < 256:
            return f"{attribute.oid.dotted_string}=#{name[-length - (2 if length < 128 else 3) :].hex()}"
    raise ValueError(
        f"the certificate's subject has a value of {attribute.oid.dotted_string} of an unknown type"
    )
