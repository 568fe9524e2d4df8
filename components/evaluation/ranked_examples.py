"""A few examples of a split that are kept whole: those with the lowest ranks, whatever the number of workers.

    worst = RankedExamples.of(10, -losses, {"label": labels, EXAMPLES: serialized})
    worst = worst.merge([of_the_next_batch])

A rank that looks random makes a sample. Of equal ranks the first is kept, so batches must be merged in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXAMPLES = "examples"
"""The column with the serialized examples."""
MOST_BYTES = 1 << 23
"""The most bytes of examples that are kept, but one example always is: images are long."""


@dataclass(frozen=True)
class RankedExamples:
    """Those with the lowest ranks. ranks: rising, [n], n being at most `most`; columns: each [n]."""

    most: int
    ranks: NDArray[Any]
    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, most: int, ranks: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> RankedExamples:
        """The lowest of a batch. Ranks that are not numbers are below all others."""
        order = np.argsort(
            np.where(np.isnan(ranks), -np.inf, ranks) if ranks.dtype.kind == "f" else ranks, kind="stable"
        )
        kept = order[:most]
        if EXAMPLES in columns:
            sizes = np.cumsum([len(each) for each in columns[EXAMPLES][kept]])
            kept = kept[: max(int(np.searchsorted(sizes, MOST_BYTES, side="right")), 1)]
        return cls(most, ranks[kept], {name: column[kept] for name, column in columns.items()})

    def merge(self, others: Sequence[RankedExamples]) -> RankedExamples:
        """The lowest of all. What others kept of the same columns is in the order of the data."""
        each = [self, *others]
        columns = {name: np.concatenate([one.columns[name] for one in each]) for name in self.columns}
        return RankedExamples.of(self.most, np.concatenate([one.ranks for one in each]), columns)

    def __len__(self) -> int:
        return len(self.ranks)
