"""Bodies of the controller's HTTP API (``/v1``), shared by the service and its clients.

Names follow the proposals (KIP-253, KIP-179, KIP-578) and Kafka's own tools. Requests refuse fields and words that
are not known; answers ignore such fields and take such words as they are, so that a newer controller may say more than an
older client knows.
"""

from __future__ import annotations

from spark_ordered_kafka.client.layout_answers import *
from spark_ordered_kafka.client.schemas.autoscale import *
from spark_ordered_kafka.client.schemas.base import *
from spark_ordered_kafka.client.schemas.brokers import *
from spark_ordered_kafka.client.schemas.changes import *
from spark_ordered_kafka.client.schemas.controllers import *
from spark_ordered_kafka.client.schemas.diagnostics import *
from spark_ordered_kafka.client.schemas.elections import *
from spark_ordered_kafka.client.schemas.events import *
from spark_ordered_kafka.client.schemas.groups import *
from spark_ordered_kafka.client.schemas.healing import *
from spark_ordered_kafka.client.schemas.layouts import *
from spark_ordered_kafka.client.schemas.log_dir_bodies import *
from spark_ordered_kafka.client.schemas.reassignments import *
from spark_ordered_kafka.client.schemas.reviews import *
from spark_ordered_kafka.client.schemas.topics import *
from spark_ordered_kafka.client.schemas.writers import *
