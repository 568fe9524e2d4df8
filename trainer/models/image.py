"""`model.kind: image`: a small convolutional network or a pretrained backbone over each image."""

from __future__ import annotations

import json
from typing import Any

import keras

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import AugmentConfig, ImageModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import check_activation, head, logits, tower
from headrace.trainer.pretrained import Backbone


def build(features: ModelInputs, label: LabelConfig, model: ImageModel) -> keras.Model:
    """Build the model, not compiled. Raises TrainingError if there is no image."""
    images = features.images()
    if not images:
        raise TrainingError("model.kind: image needs a feature with `column: image`; there is none")
    parts = [_vector(image, model, _prefix(name, images)) for name, image in images.items()]
    deep = features.deep()
    parts += [] if deep is None else [deep]
    x = keras.layers.Concatenate(name="joined")(parts) if len(parts) > 1 else parts[0]
    return keras.Model(features.inputs, head(logits(tower(x, model), label), label), name="image")


@keras.saving.register_keras_serializable("headrace")
class Augmented(keras.layers.Layer):
    """Random augmentation of images during training, on the model's device. Inference sees them unchanged."""

    def __init__(self, augment: dict[str, Any], **settings: Any) -> None:
        """augment: `model.augment` as plain values."""
        super().__init__(**settings)
        self.augment = AugmentConfig.model_validate_json(json.dumps(augment))
        self.changes = _augmentations(self.augment)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "augment": self.augment.model_dump()}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the state of the augmentations, such as that of their random numbers."""
        for change in self.changes:
            change.build(input_shape)

    def call(self, images: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """images: float32 [batch, height, width, channels], from 0 to 1."""
        for change in self.changes if training else ():
            images = change(images, training=True)
        return images

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape


@keras.saving.register_keras_serializable("headrace")
class RandomPart(keras.layers.Layer):
    """A random part of each image, enlarged to the image's size by bilinear interpolation; for training alone.

    Rows and columns are interpolated as products with matrices, which XLA compiles and which differ for each image.
    """

    def __init__(self, least: float, **settings: Any) -> None:
        """least: the least share of height and width; both have the same, drawn evenly between that and 1."""
        super().__init__(**settings)
        self.least = least
        self.seeds = keras.random.SeedGenerator()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "least": self.least}

    def call(self, images: keras.KerasTensor, training: bool = True) -> keras.KerasTensor:
        """images: [batch, height, width, channels]."""
        if not training:
            return images
        number, (height, width) = keras.ops.shape(images)[0], images.shape[1:3]
        share = keras.random.uniform((number, 1), self.least, 1.0, seed=self.seeds)
        top, left = (keras.random.uniform((number, 1), seed=self.seeds) * (1 - share) for _ in range(2))
        rows, columns = _interpolation(top, share, height), _interpolation(left, share, width)
        part = keras.ops.einsum("bij,bjwc->biwc", keras.ops.cast(rows, images.dtype), images)
        return keras.ops.einsum("bij,bhjc->bhic", keras.ops.cast(columns, images.dtype), part)


def _interpolation(start: keras.KerasTensor, share: keras.KerasTensor, size: int) -> keras.KerasTensor:
    """How much each of `size` pixels contributes to each of as many in a part of them: float32 [batch, size, size].

    start, share: [batch, 1], of where the part begins, and how long it is; the first and the last pixel of the whole
    are at 0 and 1.
    """
    last = max(size - 1, 1)
    positions = (start + share * keras.ops.arange(size, dtype="float32") / last) * last
    distances = keras.ops.abs(positions[:, :, None] - keras.ops.arange(size, dtype="float32"))
    return keras.ops.maximum(1 - distances, 0)


def _prefix(name: str, images: dict[str, keras.KerasTensor]) -> str:
    """Prefix of the names of an image's layers; empty for a single image."""
    return f"{name.replace('/', '_slash_')}_" if len(images) > 1 else ""


def _vector(image: keras.KerasTensor, model: ImageModel, prefix: str) -> keras.KerasTensor:
    """[batch, n] for an image."""
    if model.augment != AugmentConfig():
        image = Augmented(model.augment.model_dump(), name=f"{prefix}augmented")(image)
    if model.backbone is None:
        return _convolutions(image, model, prefix)
    low, high = model.backbone.pixels
    if (low, high) != (0, 1):
        image = keras.layers.Rescaling(high - low, low, name=f"{prefix}backbone_pixels")(image)
    return Backbone(model.backbone.saved_model, model.backbone.fine_tune, name=f"{prefix}backbone")(image)


def _convolutions(x: keras.KerasTensor, model: ImageModel, prefix: str) -> keras.KerasTensor:
    check_activation(model.activation)
    for position, filters in enumerate(model.filters, start=1):
        x = keras.layers.Conv2D(
            filters, model.kernel, padding="same", use_bias=False, name=f"{prefix}convolution_{position}"
        )(x)
        x = keras.layers.BatchNormalization(momentum=0.9, name=f"{prefix}normalized_{position}")(x)
        x = keras.layers.Activation(model.activation, name=f"{prefix}activation_{position}")(x)
        if min(x.shape[1:3]) > 1:
            x = keras.layers.MaxPooling2D(name=f"{prefix}halved_{position}")(x)
    if model.pooling == "none":
        return keras.layers.Flatten(name=f"{prefix}flat")(x)
    pooling = keras.layers.GlobalMaxPooling2D if model.pooling == "max" else keras.layers.GlobalAveragePooling2D
    return pooling(name=f"{prefix}pooled")(x)


def _augmentations(augment: AugmentConfig) -> list[keras.layers.Layer]:
    """The layers in the order in which they are applied: all but the first are Keras' own."""
    empty = {"fill_mode": "constant", "fill_value": 0.0}
    layers: list[keras.layers.Layer] = [RandomPart(augment.crop)] if augment.crop is not None else []
    # One layer per direction: Keras' "horizontal_and_vertical" flips along both or neither.
    directions = ("horizontal", "vertical") if augment.flip == "both" else (augment.flip,) if augment.flip else ()
    layers += [keras.layers.RandomFlip(direction) for direction in directions]
    if augment.rotate:
        layers.append(keras.layers.RandomRotation(augment.rotate / 360, **empty))
    if augment.zoom:
        layers.append(keras.layers.RandomZoom(augment.zoom, **empty))
    if augment.translate:
        layers.append(keras.layers.RandomTranslation(augment.translate, augment.translate, **empty))
    if augment.contrast:
        layers.append(keras.layers.RandomContrast(augment.contrast, value_range=(0, 1)))
    if augment.brightness:
        layers.append(keras.layers.RandomBrightness(augment.brightness, value_range=(0, 1)))
    return layers
