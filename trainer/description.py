"""The description of an exported model, which is all that `headrace predict` needs to know about it.

It is a file in the SavedModel, so that a copied or pushed version can be used without the config of its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import tensorflow as tf
from pydantic import BaseModel, JsonValue, ValidationError

from headrace.common.errors import RunError
from headrace.common.records import first_mistake
from headrace.configs.schema.label import LabelConfig

FILE_NAME = "assets.extra/description.json"
"""Path of the file in the SavedModel's folder."""

StoredType = Literal["int", "float", "bytes"]
"""A tf.Example has no other types."""
_TYPES: Mapping[tf.DType, StoredType] = {tf.int64: "int", tf.float32: "float", tf.string: "bytes"}


class ModelDescription(BaseModel, frozen=True, extra="forbid"):
    """What a model reads and predicts.

    label: what it predicts; types: the type of each data column of the training data; features: the columns that the
    model reads; reads: the data columns that each of its features reads, directly or through others, empty if that is
    unknown or code of the user's computes a feature; float64: those of which it reads float64 values; multivalued:
    those of which it uses all values, None if that is unknown; words: for a next_word or text label, the words in the
    order of the classes, without the last one, which stands for all others; model: its kind and the settings of
    `model:` that are not the defaults, which for `kind: auto` are those of the model that was chosen; signature,
    preprocessing, prediction_key: as in `ModelCall`.
    """

    label: LabelConfig
    types: dict[str, StoredType]
    features: tuple[str, ...]
    reads: dict[str, tuple[str, ...]] = {}
    float64: tuple[str, ...] = ()
    multivalued: tuple[str, ...] | None = None
    words: tuple[str, ...] = ()
    model: dict[str, JsonValue] | None = None
    signature: str = "serving_default"
    preprocessing: str = "transform_features"
    prediction_key: str | None = None

    def write(self, serving_dir: Path) -> None:
        """Write the file into a SavedModel."""
        file = serving_dir / FILE_NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.model_dump_json(indent=1), encoding="utf-8")

    @classmethod
    def read(cls, serving_dir: Path) -> ModelDescription:
        """Read the file of a SavedModel. Raises RunError if it is missing or damaged."""
        file = serving_dir / FILE_NAME
        try:
            return cls.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            raise RunError(
                f"{serving_dir} has no {FILE_NAME}, so its label and columns are unknown: the model was not exported by"
                " Headrace, or by an earlier version.\n  Run the pipeline again: its Trainer writes the file."
            ) from None
        except ValidationError as error:
            raise RunError(f"{file} is damaged, or of another version: {first_mistake(error)}") from None


def stored_types(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, StoredType]:
    """The types of the columns in a feature specification."""
    return {name: _TYPES[feature.dtype] for name, feature in spec.items()}
