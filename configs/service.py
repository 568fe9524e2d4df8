"""`train.input.service:` a tf.data service that reads for the trainer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Section

GrpcAddress = Annotated[str, Field(pattern=r"^grpc://[^\s/:]+:[0-9]{1,5}$")]
"""`grpc://host:port`."""


class ServiceConfig(Section):
    """A tf.data service, and how its workers share the data."""

    address: GrpcAddress
    """Of the dispatcher, as `headrace tfdata-service` prints it."""
    sharding: Literal["dynamic", "off"] = "dynamic"
    """dynamic: a distributed epoch, the workers share the files and each example comes once in an epoch; off: each
    worker reads everything in an order of its own, endlessly, which needs `train.steps_per_epoch`. The eval split is
    always read dynamically."""
    coordinated: bool = False
    """Coordinated reads: the workers shuffle and make whole batches, and the trainer takes them from each worker in
    turn. Needs `sharding: off`."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds to wait for an answer at the start; and later for a batch, before the trainer reads the rest itself."""


def service(choice: str | ServiceConfig | None) -> ServiceConfig | None:
    """`grpc://host:port` alone means the defaults."""
    return ServiceConfig(address=choice) if isinstance(choice, str) else choice
