"""What training runs on, and how: the types of `train.strategy`, `train.precision` and `train.jit`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

Strategy = Literal["auto", "cpu", "one_gpu", "mirrored", "multi_worker", "tpu"]
Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]

DISTRIBUTED = frozenset({"mirrored", "multi_worker", "tpu"})
"""Strategies that train on several devices, in a process of their own."""


def _spelled(value: object) -> object:
    """YAML's booleans, which other readers of YAML make of on and off."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


Jit = Annotated[Literal["auto", "on", "off"], BeforeValidator(_spelled)]
