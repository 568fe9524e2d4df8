"""`train.input:` the tf.data input pipeline."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.section import Section


class InputConfig(Section):
    """The tf.data input pipeline: interleave, batch, parse, cache, shuffle, prefetch."""

    cache: Literal["auto", "memory", "none"] = "auto"
    """Where parsed batches stay after the first epoch. auto: memory if they fit in a quarter of what is free."""
    shuffle: Annotated[int, Field(ge=0)] = 16384
    """Examples in the shuffle buffer of the train split; 0: file order."""
