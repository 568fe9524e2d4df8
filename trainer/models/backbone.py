"""A trained network as a Keras layer: a SavedModel in TensorFlow Hub's form (TF2).

Hub's own KerasLayer is of Keras 2. Here the SavedModel's variables are wrapped as Keras variables, so that they are
counted, trained, saved with the model's weights, and exported like any others.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.models.hub import local_folder

SETTING = "model.backbone.saved_model"


@keras.saving.register_keras_serializable("headrace")
class Backbone(keras.layers.Layer):
    """float32 [batch, height, width, channels] → float32 [batch, n]."""

    def __init__(self, saved_model: str, fine_tune: bool = False, **settings: Any) -> None:
        """saved_model: a folder or a handle; fine_tune: whether the weights are trained on.

        Raises TrainingError if there is none, or one of another form.
        """
        super().__init__(**{**settings, "dtype": "float32", "trainable": fine_tune})
        self.saved_model = saved_model
        self.fine_tune = fine_tune
        self.network = _load(saved_model)
        trainable = {id(variable) for variable in getattr(self.network, "trainable_variables", ())} if fine_tune else ()
        for variable in getattr(self.network, "variables", ()):
            self._track_variable(_wrapped(variable, trainable=id(variable) in trainable))
        if fine_tune and not trainable:
            raise TrainingError(
                f"model.backbone.fine_tune: {saved_model} lists no `trainable_variables`, as TensorFlow Hub's form has"
                " them; set `fine_tune: false`, or save it with that attribute"
            )
        self._knows_training = _takes_training(self.network)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """What the layer is rebuilt from; its weights come from the SavedModel, and then from the model's own."""
        settings = {name: value for name, value in super().get_config().items() if name not in {"dtype", "trainable"}}
        return {**settings, "saved_model": self.saved_model, "fine_tune": self.fine_tune}

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """A frozen network computes as it does at inference, whatever the model around it does."""
        arguments = {"training": bool(training and self.fine_tune)} if self._knows_training else {}
        try:
            vectors = self.network(images, **arguments)
        except (ValueError, TypeError) as error:
            raise TrainingError(
                f"{SETTING}: {self.saved_model} does not take images of the shape {images.shape[1:]}; set the feature's"
                f" `height`, `width` and `channels` to what it takes ({_first_line(error)})"
            ) from error
        if not isinstance(vectors, tf.Tensor) or vectors.shape.rank != 2 or vectors.shape[1] is None:
            raise TrainingError(f"{SETTING}: {self.saved_model} gives {vectors}, not vectors of shape [batch, n]")
        if training and self.fine_tune:
            for penalty in getattr(self.network, "regularization_losses", ()):
                self.add_loss(penalty())
        return vectors


def _load(saved_model: str) -> Any:
    folder = local_folder(saved_model)
    try:
        network = tf.saved_model.load(folder)
    except (OSError, tf.errors.OpError) as error:
        raise TrainingError(f"{SETTING}: {folder} is no SavedModel: {_first_line(error)}") from error
    if not callable(network):
        raise TrainingError(
            f"{SETTING}: {saved_model} is a SavedModel that cannot be called. TensorFlow Hub's form (TF2) can: it is"
            " saved from a tf.Module with a `__call__`, or by `model.export` of a Keras model wrapped in one"
        )
    return network


def _wrapped(variable: tf.Variable, *, trainable: bool) -> keras.Variable:
    """The same variable for Keras."""
    name = variable.name.partition(":")[0].replace("/", "_")
    return keras.Variable(variable, trainable=trainable, dtype=variable.dtype.name, name=name)


def _takes_training(network: Any) -> bool:
    specification = network.__call__.function_spec.fullargspec
    return "training" in (*specification.args, *specification.kwonlyargs)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
