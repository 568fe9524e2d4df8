"""The rules of `train.input.service:` and what it goes with."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.service import service
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

Finding = tuple[Where, str]
SERVICE: Where = ("train", "input", "service")


def coordinated_reads_are_unsharded(train: TrainConfig) -> Iterator[Finding]:
    settings = service(train.input.service)
    if settings and settings.coordinated and settings.sharding != "off":
        yield (*SERVICE, "coordinated"), "workers that take turns each read everything; set `sharding: off` beside it"


def unsharded_reads_have_no_end(train: TrainConfig) -> Iterator[Finding]:
    settings = service(train.input.service)
    if settings is None or settings.sharding != "off":
        return
    where: Where = (*SERVICE, "sharding")
    if train.steps_per_epoch is None:
        yield where, "`off` reads without an end, so an epoch needs `train.steps_per_epoch`; or use `dynamic`"
    if train.input.snapshot is not None:
        yield where, "`off` reads without an end, and train.input.snapshot stores one pass; remove one of them"
    if train.input.cache in ("memory", "disk"):
        yield where, f"`off` reads without an end, so there is nothing for `cache: {train.input.cache}`; remove one"


RULES = (coordinated_reads_are_unsharded, unsharded_reads_have_no_end)
