"""Principals of TLS clients, which uvicorn does not pass to the application."""

from __future__ import annotations

import asyncio
import logging

from spark_ordered_kafka.controller.access.certificates import principal_of
from spark_ordered_kafka.controller.api.connections import BoundedProtocol
from spark_ordered_kafka.controller.api.middleware.authentication import PEER_PRINCIPAL

_log = logging.getLogger(__name__)


class PeerProtocol(BoundedProtocol):
    """A connection whose requests have the principal of its TLS client in ``scope["state"]``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override, unused-ignore]
        """Called after the handshake, which has checked a client's certificate against ``ssl.ca.location``."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        certificate = None if connection is None else connection.getpeercert(binary_form=True)
        if not certificate:
            return
        try:
            # A copy for this connection: all connections share the original dictionary.
            self.app_state = {**self.app_state, PEER_PRINCIPAL: principal_of(certificate)}
        except ValueError as error:
            _log.warning("a client's certificate has no usable name: %s", error)
