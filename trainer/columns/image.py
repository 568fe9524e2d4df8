"""`column: image`: an image, decoded and resized.

Transform stores the pixels as bytes, since a tf.Example has no shorter form for them. The input pipeline and the
exported model convert them to the tensor that the model takes:

convert = stored_image_loader(columns)      # stored features → features as the model takes them
model = with_stored_images(model, columns)  # the same model, on stored features
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import ImageFeature
from headrace.trainer.columns.base import Batch, Column, VocabularySize, ignore_input_names_warning

StoredFeatures = dict[str, Any]
"""Tensors by the names of the features."""
GREY = (0.2989, 0.587, 0.114)
"""The weights of red, green and blue in grey (ITU-R BT.601)."""
SIGNATURES = (b"\xff\xd8\xff", b"\x89PN", b"GIF", b"RIF")
"""The first bytes of a JPEG, PNG, GIF and WebP file."""


class ImageColumn(Column[ImageFeature]):
    """The pixels of the resized image, row by row, as bytes: one or four per value, depending on `stored`."""

    dtype = "string"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return (self.feature.height, self.feature.width, self.feature.channels)

    def num_categories(self, vocabulary_size: VocabularySize) -> None:
        """None: an image is not a category."""
        return

    def transform(self, batch: Batch) -> tf.Tensor:
        """The pixels as bytes: string [batch]."""
        raw = batch.raw(self.key)
        if not raw.is_text:
            raise TrainingError(f"data column {self.key!r} holds numbers, and an image is bytes")
        sizes = [batch.raw(key) for key in self.feature.size_keys or ()]
        for size in sizes:
            if not size.is_integer:
                raise TrainingError(f"data column {size.name!r}, one of `size_keys`, does not hold integers")
        pixels = self._reshaped if sizes else self._decoded

        def one(present: tf.Tensor, content: tf.Tensor, *size: tf.Tensor) -> tf.Tensor:
            return _bytes(tf.cond(present, lambda: self._resized(pixels(content, *size)), self._missing))

        elements = (raw.present, raw.values, *(size.values for size in sizes))
        return tf.map_fn(lambda image: one(*image), elements, fn_output_signature=tf.TensorSpec([], tf.string))

    def keras_input(self) -> keras.KerasTensor:
        """[batch, height, width, channels] of uint8 or float32."""
        return keras.Input(shape=self.shape, name=self.input_name, dtype=self.feature.stored)

    def scaled(self, image: keras.KerasTensor) -> keras.KerasTensor:
        """The model's input as float32 between 0 and 1."""
        if self.feature.stored == "float32":
            return image
        return keras.layers.Rescaling(1 / 255, dtype="float32", name=f"{self.input_name}_scaled")(image)

    def loader(self) -> PixelsFromBytes:
        """The layer that converts stored bytes to the model's input."""
        return PixelsFromBytes(self.shape, self.feature.stored, name=f"{self.input_name}_pixels")

    def _decoded(self, content: tf.Tensor) -> tf.Tensor:
        """uint8 [height, width, channels] of an image file."""
        known = tf.reduce_any(tf.equal(tf.strings.substr(content, 0, 3), tf.constant(SIGNATURES)))
        known |= tf.equal(tf.strings.substr(content, 0, 2), b"BM")
        message = f"features.{self.name}: data column {self.key!r} holds something that is not a JPEG or PNG image"
        with tf.control_dependencies([tf.debugging.assert_equal(known, True, message)]):
            content = tf.identity(content)
        return tf.ensure_shape(tf.io.decode_image(content, expand_animations=False), [None, None, None])

    def _reshaped(self, content: tf.Tensor, *size: tf.Tensor) -> tf.Tensor:
        """uint8 [height, width, channels] of raw bytes."""
        message = (
            f"features.{self.name}: the bytes in data column {self.key!r} are not as many as"
            f" {' times '.join(self.feature.size_keys or ())}"
        )
        length = tf.cast(tf.strings.length(content), tf.int64)
        with tf.control_dependencies([tf.debugging.assert_equal(length, tf.reduce_prod(tf.stack(size)), message)]):
            return tf.reshape(tf.io.decode_raw(content, tf.uint8), tf.stack(size))

    def _resized(self, pixels: tf.Tensor) -> tf.Tensor:
        """Resize an image, uint8 [any height, any width, 1 to 4], to the shape that is stored."""
        height, width, channels = self.shape
        image = _with_channels(tf.cast(pixels, tf.float32), channels)
        if self.feature.fit == "pad":
            image = _padded(image, height, width)
        elif self.feature.fit == "crop":
            image = tf.image.resize(_middle(image, height, width), (height, width), antialias=True)
        else:
            image = tf.image.resize(image, (height, width), antialias=True)
        image = tf.ensure_shape(image, self.shape)
        return tf.cast(tf.round(image), tf.uint8) if self.feature.stored == "uint8" else image / 255

    def _missing(self) -> tf.Tensor:
        grey = self.feature.missing
        whole = tf.constant(grey, tf.uint8) if self.feature.stored == "uint8" else tf.constant(grey / 255, tf.float32)
        return tf.fill(self.shape, whole)


@keras.saving.register_keras_serializable("headrace")
class PixelsFromBytes(keras.layers.Layer):
    """Images from the bytes of their pixels: string [batch], or uint8 [batch, bytes] → [batch, height, width, channels]
    of uint8 or float32.
    """

    def __init__(self, shape: tuple[int, int, int], stored: str, **settings: Any) -> None:
        super().__init__(dtype=stored, autocast=False, **settings)
        self.shape = tuple(shape)
        self.stored = stored

    @property
    def size(self) -> int:
        """Bytes of an image."""
        return math.prod(self.shape) * tf.as_dtype(self.stored).size

    def get_config(self) -> dict[str, Any]:
        settings = {name: value for name, value in super().get_config().items() if name != "dtype"}
        return {**settings, "shape": self.shape, "stored": self.stored}

    def call(self, content: tf.Tensor) -> tf.Tensor:
        """content: string [batch], or uint8 [batch, size]."""
        dtype = tf.as_dtype(self.stored)
        if content.dtype == tf.string:
            flat = tf.io.decode_raw(content, dtype, fixed_length=self.size)
        else:
            flat = tf.bitcast(tf.reshape(content, (-1, dtype.size)), dtype) if dtype.size > 1 else content
        return tf.reshape(flat, (-1, *self.shape))

    def compute_output_spec(self, content: keras.KerasTensor) -> keras.KerasTensor:
        """Images of the configured shape."""
        return keras.KerasTensor((None, *self.shape), self.stored)


def stored_image_loader(columns: Mapping[str, Column]) -> Callable[[StoredFeatures], StoredFeatures] | None:
    """Return the input pipeline's conversion from stored features to the model's; None if there are no images."""
    layers = _loaders(columns)
    if not layers:
        return None
    return lambda features: {**features, **{name: layer.call(features[name]) for name, layer in layers.items()}}


def stored_image_bytes(columns: Mapping[str, Column]) -> dict[str, int]:
    """The bytes of an image of each feature that `stored_image_loader` converts."""
    return {name: layer.size for name, layer in _loaders(columns).items()}


def with_stored_images(model: keras.Model, columns: Mapping[str, Column]) -> keras.Model:
    """Prepend that conversion to a model, for the export; a model without images is returned unchanged."""
    layers = _loaders(columns)
    if not layers:
        return model
    inputs = {name: x for name, x in model.input.items() if name not in layers}
    stored = {name: keras.Input(shape=(), name=columns[name].input_name, dtype=tf.string) for name in layers}
    loaded = {name: layer(stored[name]) for name, layer in layers.items()}
    with ignore_input_names_warning():
        return keras.Model({**inputs, **stored}, model({**inputs, **loaded}), name=f"{model.name}_of_stored")


def _loaders(columns: Mapping[str, Column]) -> dict[str, PixelsFromBytes]:
    return {name: column.loader() for name, column in columns.items() if isinstance(column, ImageColumn)}


def _bytes(pixels: tf.Tensor) -> tf.Tensor:
    """The values of a tensor as in memory, which serialize_tensor writes after a header."""
    length = pixels.shape.num_elements() * pixels.dtype.size
    return tf.strings.substr(tf.io.serialize_tensor(pixels), -length, length)


def _with_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """Grey, or red, green and blue, from grey or color images with or without alpha."""
    colored = tf.shape(image)[2] >= 3
    if channels == 1:
        grey = tf.constant(GREY)
        return tf.cond(
            colored,
            lambda: tf.reduce_sum(image[:, :, :3] * grey, axis=2, keepdims=True),
            lambda: image[:, :, :1],
        )
    return tf.cond(colored, lambda: image[:, :, :3], lambda: tf.repeat(image[:, :, :1], 3, axis=2))


def _padded(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Center the whole image on black. tf.image.resize_with_pad places it up to a pixel off."""
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    shrink = tf.reduce_max(size / (height, width))
    inside = tf.maximum(tf.cast(tf.round(size / shrink), tf.int32), 1)
    top, left = (height - inside[0]) // 2, (width - inside[1]) // 2
    image = tf.image.resize(image, inside, antialias=True)
    return tf.image.pad_to_bounding_box(image, top, left, height, width)


def _middle(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """The largest centered crop of the target aspect ratio."""
    size = tf.shape(image)
    high, wide = size[0], size[1]
    high, wide = tf.minimum(high, wide * height // width), tf.minimum(wide, high * width // height)
    high, wide = tf.maximum(high, 1), tf.maximum(wide, 1)
    top, left = (size[0] - high) // 2, (size[1] - wide) // 2
    return image[top : top + high, left : left + wide]
