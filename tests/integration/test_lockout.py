"""Guesses at passwords keep nobody out, with Kafka judging them; all requests come from one address, as behind a proxy."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.access import passwords
from spark_ordered_kafka.local import LocalCluster
from tests.inside import prover_of
from tests.integration.secured import Service, controller


class Proxy:
    """Asks as users with passwords, and counts the seconds that the guard makes requests wait."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(prover_of(service.controller), "_sleep", self._sleep)
        self._http = service.http
        self.waited = 0.0

    async def _sleep(self, seconds: float) -> None:
        self.waited += seconds
        await asyncio.sleep(0)

    def status(self, user: str, password: str) -> int:
        return int(self._http.get("/v1/topics", auth=(user, password)).status_code)


@pytest.mark.long
def test_whoever_guesses_behind_a_proxy_locks_nobody_out(
    secure_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = secure_cluster.secrets
    # PLAIN costs Kafka least.
    with controller(secure_cluster, tmp_path / "tokens", "PLAIN") as service:
        proxy = Proxy(service, monkeypatch)
        assert proxy.status("alice", secrets.password("alice")) == 200
        with ThreadPoolExecutor(8) as pool:
            guessed = set(pool.map(lambda n: proxy.status("alice", f"guess {n}"), range(24)))
            guessed |= set(pool.map(lambda n: proxy.status("mallory", f"guess {n}"), range(24)))
        assert guessed <= {401, 503}
        assert proxy.waited > 0.0
        waited = proxy.waited
        # Never seen here before, and at the same address.
        assert proxy.status("bob", secrets.password("bob")) == 200
        # Right before, and to be proven anew.
        monkeypatch.setattr(passwords, "ACCEPTED_TTL", 0.0)
        assert proxy.status("alice", secrets.password("alice")) == 200
        assert proxy.waited == waited
        # The second waits for the first, however long ago the others were.
        said = {proxy.status("alice", guess) for guess in ("one more", "and one more")}
        assert said <= {401, 503}
        assert proxy.waited > waited or 503 in said
