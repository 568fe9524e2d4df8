"""A feature over lists of numbers of a fixed length."""

from __future__ import annotations

from typing import ClassVar, Literal

from headrace.configs.schema.features.base import SingleColumn
from headrace.configs.schema.features.tabular import SCALES
from headrace.configs.schema.section import Name, PositiveInt


class VectorFeature(SingleColumn):
    """A list of numbers that has the same length in all rows, such as an embedding: float32 of shape [batch, size].

    Each position is scaled by its own statistics. A row without a list, or with an empty one, has a missing value at
    each position; NaN is a missing value at its position. A list of another length stops the run.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.vector.VectorColumn"
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "float", "string")
    remedy: ClassVar[str] = "use another kind of feature"

    column: Literal["vector"]
    """`vector`."""
    size: PositiveInt
    """Numbers in each list."""
    normalize: Literal["z_score", "min_max", "log", "none"] = "z_score"
    """As for `numeric`, with the mean, deviation, min and max of each position: z_score: (x - mean) / standard
    deviation, over the train split; min_max: (x - min) / (max - min); log: sign(x) * log(1 + |x|); none: unchanged,
    which suits embeddings of unit length."""
    missing: Literal["mean"] | float = "mean"
    """What replaces a missing value, before scaling: the mean of its position over the train split, or a number."""
    separator: Name | None = None
    """For a column of texts: what separates the numbers, such as `";"` in `0.1;0.2` of a CSV file, or `","` in `[0.1,
    0.2]`. Brackets around the list, and white space around a number, are ignored; a space stands for any white space.
    null: the column holds lists of numbers."""

    @property
    def list_size(self) -> int | None:
        return self.size if self.separator is None else None

    def description(self) -> str:
        scale = SCALES.get(self.normalize, "not scaled")
        split = "" if self.separator is None else f", split at {self.separator!r}"
        each = "" if self.normalize == "none" else ", each by itself"
        return f"{self.size:,} numbers{split}, {scale}{each}; missing: {self.missing}"
