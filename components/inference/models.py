"""The kind of model that suits a table, by its label and its number of rows.

choose_model(sample, "binary").settings      # {"kind": "tabm"}

`benchmarks.quality` compares the kinds on real tables (docs/benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.components.inference.sample import Sample

FEW_ROWS = 100_000
"""Rows up to which an ensemble trains within minutes on a few cores. Its steps take about eight times as long."""


@dataclass(frozen=True)
class ModelChoice:
    """The settings of `model:`, and why."""

    settings: dict[str, str]
    comment: str


def choose_model(sample: Sample, label_kind: str) -> ModelChoice:
    """An ensemble of networks for all tables but large ones, where one network is enough; for a text, what writes one.

    label_kind: as in `label.kind`.
    """
    if label_kind == "text":
        return ModelChoice({"kind": "encoder_decoder"}, "it writes a text word by word")
    if sample.whole and sample.rows <= FEW_ROWS:
        why = f"an ensemble; for more than {FEW_ROWS:,} rows, `wide_and_deep` trains in an eighth of the time"
        return ModelChoice({"kind": "tabm"}, why)
    why = "`tabm`, an ensemble, often predicts better, and takes eight times as long to train"
    return ModelChoice({"kind": "wide_and_deep"}, why)
