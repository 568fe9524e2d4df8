"""`transform:` how Transform stores the transformed examples."""

from __future__ import annotations

from typing import Literal

from headrace.configs.schema.section import Section

Materialize = Literal["auto", "always", "never"]


class TransformConfig(Section):
    """How Transform stores the transformed examples."""

    materialize: Materialize = "auto"
    """Whether they are written as TFRecords of tf.Example, as TFX's Transform writes them. `never`: as Arrow columns,
    which training maps into memory instead of unzipping and parsing them; what reads TFRecords cannot read these.
    `auto`: as TFRecords if something of yours reads them, which is a `model.run_fn` or a component of `pipeline.extend`
    with the input `transformed_examples`, with `train.input.service`, or if a feature cannot be a column (see
    docs/components.md)."""
