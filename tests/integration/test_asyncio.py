"""The plain clients in an asyncio service, as docs/clients.md shows it: blocking calls in a thread, one at a time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.blocks import blocks
from tests.servers import TIMEOUT, unique_name
from tests.streams import change, conf, create

KEYS, NUMBERS = 5, 40


async def write(producer: OrderedProducer, topic: str, numbers: range) -> list[Message]:
    """One task per key; each awaits the commit of its records."""

    def send(key: int, number: int) -> asyncio.Future[Message]:
        delivered: Future[Message] = Future()
        delivered.set_running_or_notify_cancel()

        def report(error: KafkaError | None, message: Message) -> None:
            """Called in whichever thread polls or flushes."""
            if error is None:
                delivered.set_result(message)
            else:
                delivered.set_exception(KafkaException(error))

        producer.produce(topic, str(number), f"k{key}", on_delivery=report)
        return asyncio.wrap_future(delivered)

    async def one(key: int) -> list[Message]:
        sent = []
        for number in numbers:
            sent.append(send(key, number))
            await asyncio.sleep(0)
        return await asyncio.gather(*sent)

    async def serve() -> None:
        while True:
            await asyncio.to_thread(producer.poll, 0.05)

    serving = asyncio.create_task(serve())
    try:
        found = await asyncio.wait_for(asyncio.gather(*map(one, range(KEYS))), TIMEOUT)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return [message for messages in found for message in messages]


async def read(consumer: OrderedConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        found += await asyncio.to_thread(consumer.consume, 100, 0.2)
    return found


def test_an_asyncio_service_writes_and_reads_through_a_change(cluster: LocalCluster) -> None:
    topic = create(cluster, unique_name("asyncio"), 1)

    async def service() -> list[Message]:
        with OrderedProducer(conf(cluster, commit_interval_ms=50)) as producer:
            written = await write(producer, topic, range(NUMBERS))
            await asyncio.to_thread(change, cluster, topic, 3)
            written += await write(producer, topic, range(NUMBERS, 2 * NUMBERS))
            await asyncio.to_thread(producer.flush)
        assert {message.partition() for message in written} > {0}
        consumer_conf = conf(cluster, group_id=topic, auto_offset_reset="earliest")
        with OrderedConsumer(consumer_conf) as consumer:
            await asyncio.to_thread(consumer.subscribe, [topic])
            return await asyncio.wait_for(read(consumer, len(written)), TIMEOUT)

    by_key: dict[bytes | None, list[int]] = {}
    for message in asyncio.run(service()):
        by_key.setdefault(message.key(), []).append(int(message.value() or b""))
    assert by_key == {f"k{key}".encode(): list(range(2 * NUMBERS)) for key in range(KEYS)}


@pytest.mark.long
def test_the_service_of_the_page_ends_cleanly_when_it_is_cancelled(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """And one that is started again gets what comes later, since all was committed."""
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    text = next(block.text for block in blocks(page) if block.file == "service.py")
    topic = create(cluster, unique_name("service"), 2)
    program = tmp_path / "service.py"
    program.write_text(
        text.replace('"transfers"', repr(topic)).replace('"service"', repr(topic)).replace("20_000", "300")
    )
    servers = {
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
    }
    for partitions in (3, 2):
        with OrderedProducer(conf(cluster)) as producer:
            for number in range(300):
                producer.produce(topic, str(number), f"k{number % KEYS}")
        done = subprocess.run(
            [sys.executable, "-W", "error", str(program)],
            env=os.environ | servers,
            capture_output=True,
            text=True,
            timeout=4 * TIMEOUT,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "handled 300\n", "")
        change(cluster, topic, partitions)
