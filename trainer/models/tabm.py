"""`model.kind: tabm`: an ensemble of dense networks that share almost all of their weights.

TabM (Gorishniy et al. 2025, arXiv:2410.24210) with the numbers' embeddings of Gorishniy et al. 2022, arXiv:2203.05556.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import TabmModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import check_activation, head


def build(features: ModelInputs, label: LabelConfig, model: TabmModel) -> keras.Model:
    """Build the model, not compiled. Raises ModelError if no feature is meant for the deep part."""
    check_activation(model.activation)
    deep = features.deep()
    if deep is None:
        raise ModelError("model.kind: tabm has nothing to learn from: every feature has `deep: false`")
    parts = [deep]
    numbers = features.numbers(name="periodic_numbers") if model.frequencies else None
    if numbers is not None:
        periodic = Periodic(model.frequencies, model.number_embedding, name="periodic")(numbers)
        parts.append(keras.layers.Flatten(name="periodic_flat")(periodic))
    x = keras.layers.Concatenate(name="embedded")(parts) if len(parts) > 1 else deep
    for position, units in enumerate(model.hidden, start=1):
        first, members = ("signs", model.members) if position == 1 else ("ones", None)
        x = SharedDense(units, first, members, name=f"hidden_{position}")(x)
        x = keras.layers.Activation(model.activation, name=f"activation_{position}")(x)
        if model.dropout:
            x = keras.layers.Dropout(model.dropout, name=f"dropout_{position}")(x)
    scores = MemberDense(label.num_classes, name="logits")(x)
    mean = MeanOfMembers(model.members, dtype="float32", name="mean")(head(scores, label))
    return Ensemble(features.inputs, mean, name="tabm")


class Ensemble(keras.Model):
    """A model whose members each learn the label by themselves; their mean predicts.

    The loss of a training step is the mean of the members' losses, not that of the mean prediction, with which members
    would learn to make up for each other's errors, and generalize worse.
    """

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """In training, the mean of the members' losses; else the loss of the mean."""
        members = getattr(y_pred, MEMBERS, None) if training else None
        if members is not None:
            count = self.get_layer("mean").members
            y = for_each_member(y, count)
            y_pred = members
            if sample_weight is not None:
                sample_weight = ops.reshape(for_each_member(ops.reshape(sample_weight, (-1, 1)), count), (-1,))
        return super().compute_loss(x, y, y_pred, sample_weight, training)


def for_each_member(y: Any, members: int) -> Any:
    """[batch] or [batch, ...] to [batch * members, 1 or ...], each row `members` times."""
    rows = y if len(y.shape) > 1 else ops.expand_dims(y, -1)
    sizes = tuple(rows.shape)[1:]
    if None in sizes:
        sizes = ops.shape(rows)[1:]
    repeated = ops.tile(ops.expand_dims(rows, 1), (1, members, *(1 for _ in sizes)))  # ops.repeat: twice the operations
    return ops.reshape(repeated, (-1, *sizes))


MEMBERS = "_headrace_members"
"""Attribute of a mean prediction: the members' predictions, as Keras gives probabilities their `_keras_logits`."""


@keras.saving.register_keras_serializable("headrace")
class MeanOfMembers(keras.layers.Layer):
    """The mean over consecutive members: float32 [batch * members, classes] → [batch, classes]. It knows its input."""

    def __init__(self, members: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.members = members

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "members": self.members}

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        mean = ops.mean(ops.reshape(inputs, (-1, self.members, inputs.shape[-1])), axis=1)
        setattr(mean, MEMBERS, inputs)
        return mean


@keras.saving.register_keras_serializable("headrace")
class Periodic(keras.layers.Layer):
    """Embeddings of numbers: float32 [batch, numbers] → [batch, numbers, width].

    A number's sines and cosines at `frequencies` learned frequencies, then a linear layer that all numbers share, and
    ReLU ("PLR, lite"). A network of dense layers alone learns steep functions of a number slowly.
    """

    def __init__(self, frequencies: int, width: int, deviation: float = 0.1, **settings: Any) -> None:
        super().__init__(**settings)
        self.frequencies, self.width, self.deviation = frequencies, width, deviation

    def get_config(self) -> dict[str, Any]:
        own = {"frequencies": self.frequencies, "width": self.width, "deviation": self.deviation}
        return {**super().get_config(), **own}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Draw the frequencies from a normal distribution."""
        normal = keras.initializers.RandomNormal(stddev=self.deviation)
        self.scales = self.add_weight(shape=(input_shape[-1], self.frequencies), initializer=normal, name="frequencies")
        self.kernel = self.add_weight(shape=(2 * self.frequencies, self.width), name="kernel")
        self.bias = self.add_weight(shape=(self.width,), initializer="zeros", name="bias")

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        angles = 6.283185307179586 * keras.ops.expand_dims(inputs, axis=2) * self.scales
        waves = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
        return ops.relu(ops.matmul(waves, self.kernel) + self.bias)


@keras.saving.register_keras_serializable("headrace")
class SharedDense(keras.layers.Layer):
    """A linear layer per member over one shared kernel: float32 [batch, members, n] → [batch, members, units].

    Member i computes s_i * (W (r_i * x)) + b_i. Its vectors r and s are its own (BatchEnsemble: Wen et al. 2020,
    arXiv:2002.06715). With `members`, the input is [batch, n], the same for all of them.

    A training step with such an input multiplies it by the matrices of all members side by side, s_i * W * r_i: these
    are fewer numbers than an input of its own for each member and example, whose gradients cost most. Predictions scale
    the inputs instead: requests have few examples, for which making the matrices would cost more than using them.
    """

    def __init__(self, units: int, first: str, members: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.units, self.first, self.members = units, first, members

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "first": self.first, "members": self.members}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """The first layer's r are random signs, in which members differ; all others begin as ones."""
        width, members = input_shape[-1], self.members or input_shape[1]
        self.kernel = self.add_weight(shape=(width, self.units), name="kernel")
        self.scale_in = self.add_weight(
            shape=(members, width), initializer=_signs if self.first == "signs" else "ones", name="scale_in"
        )
        self.scale_out = self.add_weight(shape=(members, self.units), initializer="ones", name="scale_out")
        self.bias = self.add_weight(shape=(members, self.units), initializer="zeros", name="bias")

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        if self.members is None:
            return self._scaled(inputs)
        return self._side_by_side(inputs) if training else self._scaled(ops.expand_dims(inputs, 1))

    def _scaled(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Of inputs [batch, members, n], or [batch, 1, n]."""
        rows = ops.reshape(inputs * self.scale_in, (-1, self.kernel.shape[0]))
        return ops.reshape(ops.matmul(rows, self.kernel), (-1, *self.bias.shape)) * self.scale_out + self.bias

    def _side_by_side(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """The same of inputs [batch, n], with one matrix [n, members * units]."""
        own = ops.expand_dims(self.kernel, 1) * self.scale_out
        matrix = ops.reshape(ops.expand_dims(ops.transpose(self.scale_in), 2) * own, (inputs.shape[-1], -1))
        return ops.reshape(ops.matmul(inputs, matrix), (-1, *self.bias.shape)) + self.bias


@keras.saving.register_keras_serializable("headrace")
class MemberDense(keras.layers.Layer):
    """A linear layer of each member's own: float32 [batch, members, n] → [batch * members, units]."""

    def __init__(self, units: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.units = units

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}

    def build(self, input_shape: tuple[int | None, int, int]) -> None:
        """Draw the kernels as those of as many dense layers."""
        _, members, width = input_shape
        limit = (6 / (width + self.units)) ** 0.5  # of glorot_uniform, for one member
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(shape=(members, width, self.units), initializer=uniform, name="kernel")
        self.bias = self.add_weight(shape=(members, self.units), initializer="zeros", name="bias")

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        scores = ops.einsum("bmn,mnu->bmu", inputs, self.kernel) + self.bias
        return ops.reshape(scores, (-1, self.units))


def _signs(shape: tuple[int, ...], dtype: Any = None) -> Any:
    return ops.cast(2 * keras.random.randint(shape, 0, 2) - 1, dtype)
