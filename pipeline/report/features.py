"""The features section: a description of each feature column of the config."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.configs.config import PipelineConfig
from headrace.configs.schema.features import (
    BucketizedFeature,
    CrossedFeature,
    CustomFeature,
    Feature,
    HashedFeature,
    IdentityFeature,
    ImageFeature,
    NumericFeature,
    TextFeature,
    VocabularyFeature,
    data_columns,
)
from headrace.configs.schema.models import RunFnModel

_SCALES = {
    "z_score": "scaled to mean 0, standard deviation 1",
    "min_max": "scaled to 0..1",
    "log": "sign(x) log(1 + |x|)",
}


@dataclass(frozen=True)
class FeatureRow:
    """One feature: its kind, the data columns it reads, what it computes, and the parts of the model that use it."""

    name: str
    kind: str
    reads: tuple[str, ...]
    what: str
    parts: str


def describe_features(config: PipelineConfig) -> list[FeatureRow]:
    """One row for each feature, in the config's order; one for all of them if the user's function computes them."""
    if config.preprocessing is not None:
        reads = config.preprocessing.keys or ("all columns",)
        label = f", and the label as {config.label_key}"
        what = f"{config.preprocessing.function}: features that the config does not list{label}"
        return [FeatureRow("features of a function", "function", reads, what, "as the run_fn uses them")]
    return [
        FeatureRow(
            name,
            feature.column,
            data_columns(name, feature, config.declared_features),
            _what(feature),
            _parts(feature, config),
        )
        for name, feature in config.declared_features.items()
    ]


def _what(feature: Feature) -> str:
    multivalued = getattr(feature, "multivalued", False) and not isinstance(feature, TextFeature)
    separator = getattr(feature, "separator", None)
    split = "" if separator is None else f", split at {separator!r}"
    return _computed(feature) + (f" (all values{split})" if multivalued else "")


def _text(feature: TextFeature) -> str:
    words = "words" if feature.max_tokens is None else f"the {feature.keep} {feature.max_tokens} words"
    if feature.hash_buckets is not None:
        return f"{words} in {feature.hash_buckets:,} hash buckets"
    return f"{words} in {_vocabulary(feature)}, {feature.oov_buckets} for unknown words"


def _computed(feature: Feature) -> str:  # noqa: PLR0911 - one return per kind
    match feature:
        case NumericFeature():
            return f"{_SCALES.get(feature.normalize, 'not scaled')}; missing: {feature.missing}"
        case BucketizedFeature(boundaries=None):
            return f"{feature.buckets} quantile buckets{_missing(feature.missing)}"
        case BucketizedFeature():
            return (
                f"buckets at {', '.join(f'{edge:g}' for edge in feature.boundaries or ())}{_missing(feature.missing)}"
            )
        case IdentityFeature():
            return f"category ids 0 to {feature.num_buckets - 1}{_missing(feature.missing)}"
        case VocabularyFeature():
            return f"{_vocabulary(feature)}, {feature.oov_buckets} for unknown values{_missing(feature.missing)}"
        case HashedFeature() | CrossedFeature():
            return f"{feature.hash_buckets:,} hash buckets{_missing(getattr(feature, 'missing', None))}"
        case CustomFeature():
            return feature.function
        case ImageFeature():
            return f"{feature.height} x {feature.width} pixels, {'grayscale' if feature.channels == 1 else 'color'}"
        case TextFeature():
            return _text(feature)


def _missing(value: object) -> str:
    return "" if value is None else f"; missing: {value}"


def _vocabulary(feature: VocabularyFeature | TextFeature) -> str:
    if feature.values is not None:
        return f"{len(feature.values)} given values"
    if feature.file is not None:
        return f"the values in {feature.file}"
    most = f"the {feature.top_k} most frequent values" if feature.top_k else "the values"
    often = f", seen at least {feature.min_frequency} times" if feature.min_frequency > 1 else ""
    return f"{most} of the train split{often}"


def _parts(feature: Feature, config: PipelineConfig) -> str:
    if isinstance(config.model, RunFnModel):
        return "as the run_fn uses it"
    if isinstance(feature, NumericFeature):
        return "number"
    if isinstance(feature, ImageFeature):
        return "image"
    if isinstance(feature, CustomFeature) and feature.num_categories is None:
        return "number"
    embedding = feature.embedding or config.model.embedding
    deep = {"auto": "embedding", "one_hot": "one-hot"}.get(str(embedding), f"embedding of {embedding}")
    wide = feature.wide and config.model.kind == "wide_and_deep"
    return " + ".join(part for part, there in ((deep, feature.deep), ("wide", wide)) if there) or "not used"
