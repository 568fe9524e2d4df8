"""The kind of model that suits a table, by its label and its number of rows.

choose_model(sample, "binary", features).settings      # {"kind": "tabm"}

`benchmarks.quality` compares the kinds on real tables (docs/quality.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.components.inference.images import smallest_side
from headrace.components.inference.sample import Sample
from headrace.configs.schema.table_model import FEW_EXAMPLES

FEW_ROWS = FEW_EXAMPLES
"""Rows up to which an ensemble is chosen."""
FILTERS = (32, 64, 128, 256)
"""Of the convolutions, first to last, each of which sees images of half the height and width."""
FEWEST_FILTERS, LEAST_SIDE = 2, 8
"""Convolutions that there are always; pixels of an image below which there is no further one."""


@dataclass(frozen=True)
class InferredModel:
    """The settings of `model:`, and why."""

    settings: dict[str, Any]
    comment: str


def choose_model(sample: Sample, label_kind: str, features: Sequence[Mapping[str, Any]]) -> InferredModel:
    """An ensemble of networks for all tables but large ones, where one network is enough; for a text, what writes one;
    for images, convolutions.

    label_kind: as in `label.kind`; features: their settings.
    """
    if label_kind == "text":
        return InferredModel({"kind": "encoder_decoder"}, "it writes a text word by word")
    if (side := smallest_side(features)) is not None:
        return _of_images(side)
    if sample.whole and sample.rows <= FEW_ROWS:
        why = f"an ensemble; for more than {FEW_ROWS:,} rows, `wide_and_deep` trains several times as fast"
        return InferredModel({"kind": "tabm"}, why)
    why = "`tabm`, an ensemble, often predicts better, and takes several times as long to train"
    return InferredModel({"kind": "wide_and_deep"}, why)


def _of_images(side: int) -> InferredModel:
    """As many convolutions as halve the least side of the images to LEAST_SIDE; in few, all positions count."""
    count = next((number for number in range(len(FILTERS)) if side >> number < LEAST_SIDE), len(FILTERS))
    filters = [*FILTERS[: max(count, FEWEST_FILTERS)]]
    if len(filters) == FEWEST_FILTERS:
        why = "convolutions; the images are small, so all positions count. `augment` shows them a little differently"
        return InferredModel({"kind": "image", "filters": filters, "pooling": "none"}, f"{why} every time")
    why = "convolutions; with fewer than some thousand photographs, a pretrained `backbone` does better"
    return InferredModel({"kind": "image", "filters": filters}, f"{why}. docs/images.md has both")
