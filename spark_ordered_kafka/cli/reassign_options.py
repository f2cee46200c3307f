"""Options that commands of ``ordered-kafka reassign`` share; names are those of ``kafka-reassign-partitions``."""

from __future__ import annotations

from typing import Annotated

import typer

REASSIGNMENT_JSON_FILE = "--reassignment-json-file"
INT32_MAX = 2**31 - 1
MAX_BYTES = 2**63 - 1

JsonFileOption = Annotated[
    typer.FileBinaryRead | None,
    typer.Option(
        REASSIGNMENT_JSON_FILE,
        metavar="FILE",
        help="The plan in Kafka's JSON; - reads stdin. log_dirs are optional: an absolute path each, or any.",
    ),
]
RequestOption = Annotated[
    int | None,
    typer.Option(
        "--request",
        metavar="ID",
        min=1,
        max=INT32_MAX,
        help="Id of the request, as reassign execute printed it.",
        show_default="the latest",
    ),
]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Return once it has begun.")]
LogDirsThrottleOption = Annotated[
    int | None,
    typer.Option(
        "--replica-alter-log-dirs-throttle",
        metavar="B",
        min=1,
        max=MAX_BYTES,
        help="Bytes per second that each broker may copy between its log directories.",
        show_default="no limit",
    ),
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--timeout",
        metavar="MS",
        min=1,
        max=600_000,
        help="Milliseconds that the controller may take to begin.",
    ),
]
