"""The rules between the model and its features, one short function each (rules.py says how they are called)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from configs.features import Feature
from configs.image import ImageFeature
from configs.models import ImageModel, ModelConfig, OwnModel
from configs.tree import Where

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


RULES: tuple[Callable[..., Iterator[Finding]], ...] = (images_are_seen,)
