"""Connections to a controller that fail in TLS, and the option that is the cause."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import is_other_host


def tls_refusal(error: BaseException, url: str, credentials: ControllerCredentials) -> ConfigError | None:
    """What is wrong with the TLS connection that ``error`` ended; None: it was something else."""
    found = next((one for one in _causes(error) if isinstance(one, ssl.SSLError)), None)
    if found is None:
        return None
    if is_other_host(found):
        hint = f"its certificate is for another host ({found.verify_message}): use a name that the certificate has"
        return ConfigError("controller.url", url, hint)
    if isinstance(found, ssl.SSLCertVerificationError):
        hint = f"the certificate of {url} is not to be trusted ({found.verify_message}): give the authority that signed it"
        return ConfigError(*credentials.authorities, hint)
    reason = found.reason or str(found)
    if "ALERT" in reason:
        hint = f"{url} ended the TLS connection ({reason}): give a certificate that it trusts"
        return ConfigError(*credentials.own_certificate, hint)
    return ConfigError("controller.url", url, f"no TLS connection can be made ({reason}); is it http?")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
