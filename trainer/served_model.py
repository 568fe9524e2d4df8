"""What the Evaluator calls of a SavedModel: one signature for the predictions, and one for the features and the label.

call = ModelCall(label_key="tips_xf", width=1)
if why := call.why_not(loaded): ...
labels, predictions = call(loaded, examples)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from headrace.common.names import did_you_mean_or_list, join_names

PREDICTIONS = "predictions"
"""The output of our signatures that holds the predictions: for each example, [batch, outputs]."""
EXAMPLES = "examples"
"""The input of our signatures, and of TFX's, that takes serialized examples, also if a feature has that name."""


def task_output(task: str, output: str) -> str:
    """The output of a signature for one of several labels: `sold_predictions`; of "", the only label, by its name."""
    return f"{task}_{output}" if task else output


SCORE = "score"
"""The signature of a model of a text label that predicts each word of the label after those before it."""


@dataclass(frozen=True)
class ModelCall:
    """The signatures of a model, in the words of TFMA's ModelSpec."""

    label_key: str
    """Name of the label among the outputs of the preprocessing function."""
    signature_name: str = "serving_default"
    preprocessing_function_name: str = "transform_features"
    prediction_key: str | None = None
    """Name of the output with the predictions. None: the only one, or PREDICTIONS of several."""

    def __call__(self, loaded: Any, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return labels and predictions for serialized tf.Examples, string [batch]; both as the signatures shape them.

        loaded: the result of `tf.saved_model.load`, for which `why_not` returns None.
        """
        return self.of(*self.outputs(loaded, examples))

    def outputs(self, loaded: Any, examples: tf.Tensor) -> tuple[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]]:
        """Return all outputs of the preprocessing function and of the signature: of several labels, for all of them."""
        features = self._features(loaded, examples)
        return features, self._predict(loaded, examples, features)

    def of(self, features: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return labels and predictions among `outputs`."""
        return features[self.label_key], self._chosen(outputs)

    def predictions(self, loaded: Any, examples: tf.Tensor) -> tf.Tensor:
        """Return the predictions alone, without computing features that the signature does not take."""
        preprocess = loaded.signatures.get(self.preprocessing_function_name)
        takes_features = preprocess is not None and _takes_features(
            loaded.signatures[self.signature_name], preprocess.structured_outputs
        )
        return self._chosen(self._predict(loaded, examples, self._features(loaded, examples) if takes_features else {}))

    def _features(self, loaded: Any, examples: tf.Tensor) -> Mapping[str, tf.Tensor]:
        preprocess = loaded.signatures[self.preprocessing_function_name]
        features: Mapping[str, tf.Tensor] = preprocess(**{_only_input(preprocess): examples})
        return features

    def _predict(self, loaded: Any, examples: tf.Tensor, features: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
        predict = loaded.signatures[self.signature_name]
        if _takes_features(predict, features):
            outputs = predict(**{name: tf.cast(features[name], spec.dtype) for name, spec in _inputs(predict).items()})
        else:
            outputs = predict(**{_only_input(predict): examples})
        return dict(outputs)

    def why_not(self, loaded: Any, width: int | None = None) -> str | None:
        """Explain why a model cannot be evaluated; None if nothing seems to be wrong.

        width: the number of predictions for each example; None if it is not known.
        """
        first, second = self.preprocessing_function_name, self.signature_name
        for name in (first, second):
            if name not in loaded.signatures:
                return f"it has no signature {name!r}{did_you_mean_or_list(name, loaded.signatures, 'it has')}"
        preprocess, predict = loaded.signatures[first], loaded.signatures[second]
        features = preprocess.structured_outputs
        if not _takes_examples(preprocess):
            return f"its signature {first!r} takes {join_names(_inputs(preprocess))}, not serialized examples"
        if self.label_key not in features:
            known = did_you_mean_or_list(self.label_key, features, "it returns")
            return f"its signature {first!r} does not return the label {self.label_key!r}{known}"
        if not _takes_examples(predict) and not _inputs(predict).keys() <= features.keys():
            takes = f"its signature {second!r} takes {join_names(_inputs(predict))}"
            return f"{takes}; it needs serialized examples, or features that {first!r} returns"
        return self._why_not_output(predict.structured_outputs, width)

    def _why_not_output(self, outputs: Mapping[str, tf.TensorSpec], width: int | None) -> str | None:
        named = self.prediction_key
        if named is None and len(outputs) != 1 and PREDICTIONS not in outputs:
            what = f"its signature {self.signature_name!r} returns {join_names(outputs)}"
            return f"{what}; name one in model.prediction_key"
        if named is not None and named not in outputs:
            known = did_you_mean_or_list(named, outputs, "it returns")
            return f"its signature {self.signature_name!r} does not return {named!r}{known}"
        shape = self._chosen(outputs).shape
        found = 1 if shape.rank == 1 else shape[-1] if shape.rank else None
        if width is not None and found is not None and found != width:
            return f"it predicts {found} numbers for each example, and `label` requires {width}"
        return None

    def _chosen(self, outputs: Mapping[str, Any]) -> Any:
        return outputs[self.output_name(outputs)]

    def output_name(self, outputs: Mapping[str, Any]) -> str:
        """The name of the predictions among the outputs of the signature, which may lack it."""
        if self.prediction_key is None and len(outputs) == 1:
            return next(iter(outputs))
        return self.prediction_key or PREDICTIONS


def _inputs(signature: Any) -> dict[str, tf.TensorSpec]:
    return dict(signature.structured_input_signature[1])


def _only_input(signature: Any) -> str:
    (name,) = _inputs(signature)
    return name


def _takes_examples(signature: Any) -> bool:
    return [spec.dtype for spec in _inputs(signature).values()] == [tf.string]


def takes_features(inputs: Mapping[str, tf.DType], features: Collection[str]) -> bool:
    """Whether a signature with these inputs takes some of these features, by name, and not serialized examples."""
    return inputs.keys() <= set(features) and dict(inputs) != {EXAMPLES: tf.string}


def _takes_features(signature: Any, features: Mapping[str, Any]) -> bool:
    return takes_features({name: spec.dtype for name, spec in _inputs(signature).items()}, features)
