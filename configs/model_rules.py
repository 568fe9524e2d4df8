"""The rules of the model and of it and its features, one short function each (rule.py says how they are called)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.features import Feature, TextFeature
from headrace.configs.image import ImageFeature
from headrace.configs.keras_names import ACTIVATIONS
from headrace.configs.label import LabelConfig
from headrace.configs.models import DcnModel, DnnModel, ImageModel, ModelConfig, OwnModel, TextModel
from headrace.configs.rule import Finding, Rule
from headrace.configs.suggest import meant
from headrace.configs.words import either


def activation_is_known(model: ModelConfig) -> Iterator[Finding]:
    if model.activation not in ACTIVATIONS:
        name = model.activation
        yield ("model", "activation"), f'Keras has no activation "{name}"{meant(name, ACTIVATIONS, "it has")}'


def deep_part_sees_something(model: ModelConfig, features: dict[str, Feature]) -> Iterator[Finding]:
    """A `dnn` or `dcn` has only the deep part; without a feature there it has no input."""
    if isinstance(model, DnnModel | DcnModel) and not any(
        getattr(feature, "deep", True) for feature in features.values()
    ):
        what = f"`kind: {model.kind}` sees no feature: all have `deep: false`; set `deep: true` in some, or"
        what += " `kind: wide_and_deep`"
        yield ("model", "kind"), what


def images_are_seen(model: ModelConfig, features: dict[str, Feature]) -> Iterator[Finding]:
    """An image that the model leaves out would be a mistake that nobody is told of."""
    images = [name for name, feature in features.items() if isinstance(feature, ImageFeature)]
    if isinstance(model, ImageModel):
        if not images:
            yield ("model", "kind"), "`kind: image` needs a feature with `column: image`; add one, or use another kind"
    elif not isinstance(model, OwnModel):
        for name in images:
            what = f"`kind: {model.kind}` does not see images; use `model: {{kind: image}}`, or a builder of your own"
            yield ("features", name, "column"), what


def texts_are_read(model: ModelConfig, features: dict[str, Feature], label: LabelConfig) -> Iterator[Finding]:
    texts = [name for name, feature in features.items() if isinstance(feature, TextFeature)]
    if label.kind == "next_word" and not isinstance(model, TextModel | OwnModel):
        yield ("model", "kind"), f"`label.kind: next_word` needs `kind: text`; found {model.kind}"
    if not isinstance(model, TextModel):
        return
    if not texts:
        yield ("model", "kind"), "`kind: text` needs a feature with `column: text`; add one, or use another kind"
    elif model.text is not None and model.text not in texts:
        yield (
            ("model", "text"),
            f'"{model.text}" is no feature with `column: text`{meant(model.text, texts, "such are")}',
        )
    elif model.text is None and label.text is None and len(texts) > 1:
        yield ("model", "kind"), f"which text is it to read? Say `text:` {either(texts)}"
    elif label.text is not None and model.text not in {None, label.text}:
        yield ("model", "text"), f'the label follows "{label.text}" (label.text); read that, or remove the line'


RULES: tuple[Rule, ...] = (activation_is_known, deep_part_sees_something, images_are_seen, texts_are_read)
