"""The preprocessing_fn that TFX's Transform traces: the config's features and label as one graph."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from headrace.trainer import columns
from headrace.trainer.columns.batch import Batch, RawTensor, naming
from headrace.trainer.label import transform_label
from headrace.trainer.sections import TrainerSections


def preprocessing_fn(inputs: Mapping[str, RawTensor], custom_config: Mapping[str, str]) -> dict[str, tf.Tensor]:
    """Raw data columns to features and label, each of shape [batch], or [batch, values] where several count.

    custom_config: {"config": TrainerSections as JSON}, and {"by_span": "yes"} if what is computed of each span may be
    kept. Transform traces this about ten times: it has no side effects.
    """
    sections = TrainerSections.from_json(custom_config["config"])
    return transform(inputs, sections, by_span=bool(custom_config.get("by_span")))


def transform(
    inputs: Mapping[str, RawTensor], sections: TrainerSections, *, by_span: bool = False
) -> dict[str, tf.Tensor]:
    """`preprocessing_fn` for parsed sections."""
    built = columns.build(sections.features)
    batch = Batch(inputs, built, by_span=by_span)
    outputs = {sections.label.key: transform_label(sections.label, batch)}
    for name, column in built.items():
        with naming(name):
            outputs[name] = column.transform(batch)
    return outputs
