"""The rules between the model and its features, one short function each (rules.py says how they are called)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from configs.features import Feature, TextFeature
from configs.image import ImageFeature
from configs.label import LabelConfig
from configs.models import ImageModel, ModelConfig, OwnModel, TextModel
from configs.suggest import meant
from configs.tree import Where
from configs.words import either

Finding = tuple[Where, str]


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


RULES: tuple[Callable[..., Iterator[Finding]], ...] = (images_are_seen, texts_are_read)
