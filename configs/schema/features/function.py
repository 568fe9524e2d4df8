"""`features: {function: ...}`: the preprocessing_fn of an existing TFX pipeline."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from headrace.configs.schema.section import DottedPath, Name, Section


class PreprocessingFunction(Section):
    """The `preprocessing_fn` of an existing TFX pipeline, unchanged, instead of feature columns. It requires
    `model.run_fn` (see docs/tfx_functions.md).
    """

    function: DottedPath
    """The function, such as `models.preprocessing.preprocessing_fn`: from the data columns by name to the features and
    the label by name."""
    label_key: Name | None = None
    """Name of the label among the function's outputs, such as `tips_xf`. null: that of the column, `label.key`."""
    keys: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The data columns that the function receives, besides the label. null: all. Set it to let DataGate and
    `schedule.drift` watch these columns, and `data.columns: used` read no others."""
    custom_config: dict[str, JsonValue] = {}
    """Passed to the function as `custom_config`, if it has such a parameter."""
