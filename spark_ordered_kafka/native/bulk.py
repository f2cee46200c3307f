"""Queueing many records of one topic in librdkafka at once.

confluent-kafka takes a dict per record, and holds Python's lock meanwhile. :class:`LibrdkafkaBulk` calls
``rd_kafka_produce_batch`` of the library that confluent-kafka has loaded, with an array that numpy makes;
:class:`PlainBulk` does the same by confluent-kafka alone.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import logging
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import confluent_kafka
import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Producer, cimpl

_LOG = logging.getLogger(__name__)
# Those whose Handle begins with the rd_kafka_t pointer, and whose dr_msg_cb returns at once for a null opaque.
_KNOWN_VERSIONS = ((2, 16), (2, 17))
_COPY = 0x2  # RD_KAFKA_MSG_F_COPY
_SYMBOLS = ("rd_kafka_version", "rd_kafka_topic_new", "rd_kafka_topic_destroy", "rd_kafka_produce_batch")

Contents = Sequence[bytes | None]
Partitions = npt.NDArray[np.integer[Any]]


class _Message(ctypes.Structure):
    # rd_kafka_message_t; pointers are integers, for numpy to fill in.
    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_size_t),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_size_t),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_size_t),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_size_t),
    )


_MESSAGE: np.dtype[Any] = np.dtype(_Message)


class Bulk(Protocol):
    """A way to queue records; the delivery of such records is not reported."""

    def produce(
        self, producer: Producer, topic: str, partitions: Partitions, keys: Contents, values: Contents
    ) -> None:
        """Queue records, in the order given for each partition.

        ``partitions``: one per record, shape ``(len(keys),)``. None and empty keys and values stay different. The
        producer must have no default delivery callback.

        Raises KafkaException when a record is refused, because the queue is full, say. Others may have been queued
        by then, also later ones of its partition, so the transaction must be given up.
        """


class PlainBulk:
    """By ``Producer.produce_batch()``, one call per partition."""

    def produce(
        self, producer: Producer, topic: str, partitions: Partitions, keys: Contents, values: Contents
    ) -> None:
        """See :class:`Bulk`."""
        order, found, ends = _grouped(partitions)
        places, start = order.tolist(), 0
        for partition, end in zip(found.tolist(), ends.tolist(), strict=True):
            rows: list[dict[str, Any]] = [
                {"value": values[place], "key": keys[place]} for place in places[start:end]
            ]
            start = end
            # A partition named in a row would be ignored: confluent-kafka passes one for the whole call.
            if producer.produce_batch(topic, rows, partition) < len(rows):
                raise KafkaException(next(row["_error"] for row in rows if "_error" in row))


class LibrdkafkaBulk:
    """By ``rd_kafka_produce_batch()``, one call per partition, without Python's lock.

    Raises OSError or AttributeError where confluent-kafka's extension module does not lead to librdkafka.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(cimpl.__file__)
        for symbol in _SYMBOLS:
            getattr(library, symbol)
        if library.rd_kafka_version() != confluent_kafka.libversion()[1]:
            raise OSError("another librdkafka than confluent-kafka's answers")
        self._topic_new = library.rd_kafka_topic_new
        self._topic_new.restype = ctypes.c_void_p
        self._topic_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._topic_destroy = library.rd_kafka_topic_destroy
        self._topic_destroy.restype = None
        self._topic_destroy.argtypes = (ctypes.c_void_p,)
        self._produce_batch = library.rd_kafka_produce_batch
        self._produce_batch.restype = ctypes.c_int
        self._produce_batch.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int,
        )

    def produce(
        self, producer: Producer, topic: str, partitions: Partitions, keys: Contents, values: Contents
    ) -> None:
        """See :class:`Bulk`."""
        messages = np.zeros(len(keys), _MESSAGE)
        # The array points into the joined bytes, until librdkafka has copied them.
        joined = (
            _point(messages["key"], messages["key_len"], keys),
            _point(messages["payload"], messages["len"], values),
        )
        order, found, ends = _grouped(partitions)
        messages = messages[order]
        handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
        if handle is None:
            raise RuntimeError("Producer has been closed")
        # A handle for each call, as confluent-kafka has it: librdkafka cannot be ended while one is there.
        topic_handle = self._topic_new(handle, topic.encode(), None)
        if topic_handle is None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
        try:
            # A call per partition: with one for all (RD_KAFKA_MSG_F_PARTITION) librdkafka 2.16 loses count of a
            # record whose partition it does not know, so that its queue never gets empty.
            address, start = messages.ctypes.data, 0
            for partition, end in zip(found.tolist(), ends.tolist(), strict=True):
                first = address + start * _MESSAGE.itemsize
                if self._produce_batch(topic_handle, partition, _COPY, first, end - start) < end - start:
                    refused = messages["err"][start:end]
                    raise KafkaException(KafkaError(int(refused[refused != 0][0])))
                start = end
        finally:
            self._topic_destroy(topic_handle)
            del joined


def _grouped(partitions: Partitions) -> tuple[npt.NDArray[np.intp], Partitions, npt.NDArray[np.intp]]:
    """Places by partition, each partition found, and where among the places it ends."""
    order = np.argsort(partitions, kind="stable")
    found, counts = np.unique(partitions, return_counts=True)
    return order, found, np.cumsum(counts)


def _point(pointers: npt.NDArray[Any], lengths: npt.NDArray[Any], contents: Contents) -> bytes:
    """Fill in where each content lies in the bytes that are given back; null pointers for None."""
    try:
        joined = b"".join(contents)  # type: ignore[arg-type]
    except TypeError:
        absent = np.fromiter((content is None for content in contents), bool, len(contents))
        joined = _point(pointers, lengths, [content or b"" for content in contents])
        pointers[absent] = 0
        return joined
    lengths[:] = np.fromiter(map(len, contents), np.int64, len(contents))  # type: ignore[arg-type]
    ends = np.cumsum(lengths)
    address = ctypes.cast(ctypes.c_char_p(joined), ctypes.c_void_p).value
    pointers[:] = ends - lengths + np.uint64(address or 0)
    return joined


@functools.cache
def best_bulk() -> Bulk:
    """The fastest way that is known to work with the confluent-kafka at hand."""
    version = tuple(
        int("".join(itertools.takewhile(str.isdigit, part)) or 0)
        for part in str(confluent_kafka.version()).split(".")
    )
    reason = ""
    if not _KNOWN_VERSIONS[0] <= version < _KNOWN_VERSIONS[1] or sys.implementation.name != "cpython":
        reason = "its memory layout is known for 2.16 under CPython only"
    else:
        try:
            return LibrdkafkaBulk()
        except (OSError, AttributeError) as error:
            reason = str(error)
    _LOG.info("confluent-kafka %s is given records one by one: %s", confluent_kafka.version(), reason)
    return PlainBulk()
