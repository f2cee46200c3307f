"""Routes of the names of one-off writers."""

from __future__ import annotations

from fastapi import FastAPI, Request

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import caller_of
from spark_ordered_kafka.controller.api.http.rights import by_item
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    rights = [by_item(service, "WRITE on the topic, if one is named")]

    def check(request: Request, topic: str | None) -> None:
        if topic is not None:
            service.access.check(caller_of(request), Operation.WRITE, topic)

    @app.post("/v1/writer-names", dependencies=rights)
    def take_writer_name(request: Request, wanted: schemas.WriterNameRequest) -> schemas.WriterName:
        """A name for a writer, to be released when the writer has ended."""
        check(request, wanted.topic)
        name, nonce = service.writer_names.take(wanted.topic)
        return schemas.WriterName(writer=name, nonce=nonce)

    @app.post("/v1/writer-names/release", dependencies=rights)
    def release_writer_name(request: Request, given: schemas.WriterNameRelease) -> schemas.Result:
        """Release a name; unknown and already released names are no error."""
        check(request, given.topic)
        service.writer_names.release(given.topic, given.writer, given.nonce)
        return schemas.Result()
