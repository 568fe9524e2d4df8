"""A convolutional network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.models.base import ModelBase, Share, Units
from headrace.configs.section import Name, Section

Amount = Annotated[float, Field(ge=0, le=1)]


class AugmentConfig(Section):
    """Random changes of the images while training, other ones each time an image is seen; none where the model is
    evaluated or serves. What a change leaves empty is black.
    """

    flip: Literal["horizontal", "vertical", "both"] | None = None
    """Mirrors half of the images: left and right, top and bottom, or each."""
    translate: Share = 0.0
    """Moves by up to this share of height and width."""
    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Turns by up to so many degrees either way."""
    zoom: Share = 0.0
    """Makes larger or smaller by up to this share."""
    contrast: Share = 0.0
    """Spreads the pixels about their mean by a factor from 1 minus to 1 plus this."""
    brightness: Amount = 0.0
    """Adds up to so much to all pixels, or takes it away; they lie between 0 and 1."""


class BackboneConfig(Section):
    """A trained network that turns images into vectors, in place of convolutions of your own (transfer learning)."""

    saved_model: Name
    """A SavedModel in TensorFlow Hub's form (TF2): the folder of one, local or `s3://`, `gs://`; or a handle, such as
    `https://tfhub.dev/google/imagenet/mobilenet_v2_100_224/feature_vector/5`, which is looked up in the folder
    TFHUB_CACHE_DIR and downloaded into it if it is not there. It takes float32 [batch, height, width, channels] and
    gives [batch, n]; `height`, `width` and `channels` of the feature must be what it takes."""
    fine_tune: bool = False
    """Whether its weights are trained on, with a `train.learning_rate` that should be low then; false: they stay."""
    pixels: Annotated[tuple[float, ...], Field(min_length=2, max_length=2)] = (0.0, 1.0)
    """Black and white as it wants them; by TensorFlow Hub's convention 0 and 1."""


class ImageModel(ModelBase):
    """A small convolutional network over each `image` feature, or a network that was trained before; what it gives,
    beside the other features (what the deep part of other models sees), goes through the dense layers.
    """

    kind: Literal["image"]
    """`image`."""
    filters: Annotated[tuple[Units, ...], Field(min_length=1)] = (32, 64)
    """Filters of the convolutions, first to last. Behind each stand batch normalization, the activation, and max
    pooling that halves height and width while they are 2 or more."""
    kernel: Annotated[int, Field(ge=1, le=15)] = 3
    """Height and width of the filters, in pixels."""
    pooling: Literal["average", "max", "none"] = "average"
    """How the last convolution's output becomes a vector: the average or maximum of each filter, or none: all places
    side by side, for small images where the place of something matters."""
    augment: AugmentConfig = AugmentConfig()
    """Random changes of the images while training."""
    backbone: BackboneConfig | None = None
    """null: convolutions of its own, as `filters`, `kernel` and `pooling` say, trained from the start."""

    @model_validator(mode="after")
    def _one_way_to_vectors(self) -> ImageModel:
        beside = [name for name in ("filters", "kernel", "pooling") if name in self.model_fields_set]
        if self.backbone is not None and any(getattr(self, name) != _DEFAULTS[name] for name in beside):
            raise ValueError(f"a `backbone` takes the place of the convolutions; remove `{'`, `'.join(beside)}`")
        return self


_DEFAULTS = {name: ImageModel.model_fields[name].default for name in ("filters", "kernel", "pooling")}
