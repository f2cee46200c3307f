"""Restarts servers while a program goes on."""

from __future__ import annotations

import threading

from spark_ordered_kafka.local import LocalCluster


class Restarts:
    """Kills servers of a cluster, one at a time, and starts them again in the background."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._starting = threading.Thread()

    def restart(self, server: str) -> None:
        """Return when it has been killed; the one before is up again by then."""
        self.wait()
        self._cluster.kill(server)
        self._starting = threading.Thread(target=self._cluster.start, args=(server,))
        self._starting.start()

    def wait(self) -> None:
        """Until all are up."""
        if self._starting.ident is not None:
            self._starting.join()
