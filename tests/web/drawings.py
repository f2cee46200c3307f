"""Takes the pictures of docs/page.md anew, of a real cluster: ``python -m tests.web.drawings``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import FloatRect

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.streams import NumberedWriter, change
from tests.web.browsing import Browsing, chromium

DRAWINGS = Path(__file__).parents[2] / "docs" / "drawings"
TOPIC, SIZE, MARGIN = "orders", (1100, 820), 12


def main() -> None:
    """Three brokers, and a topic that has grown and shrunk."""
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), brokers=3, controllers=1) as cluster,
    ):
        with ControllerClient(cluster.controller_url) as client:
            client.create_topic(schemas.CreateTopicRequest(topic=TOPIC, partitions=2, replication_factor=3))
        writer = NumberedWriter(cluster, TOPIC)
        writer.write(10)
        for count in (5, 3):
            change(cluster, TOPIC, count)
            writer.write(10)
        with chromium() as browser:
            browsing = Browsing(browser)
            _take(browsing, cluster.controller_url)
            browsing.close()


def _take(browsing: Browsing, url: str) -> None:
    visit = browsing.visit(url, f"topics/{TOPIC}", size=SIZE)
    visit.await_text("defaults hold", "[aria-label=Configuration]")
    # The rate is that between two readings.
    visit.await_text("0/s", ".facts")
    visit.page.screenshot(path=DRAWINGS / "page-topic.png")
    visit.button("Change partition count").click()
    visit.field("New partition count").fill("7")
    visit.preview()
    box = visit.page.locator("dialog").bounding_box()
    assert box is not None
    clip: FloatRect = {
        "x": box["x"] - MARGIN,
        "y": box["y"] - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": box["height"] + 2 * MARGIN,
    }
    visit.page.screenshot(path=DRAWINGS / "page-change.png", clip=clip)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
