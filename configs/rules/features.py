"""The rules between features and the label; those about types are in `declared_types.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace.common.names import did_you_mean_or_list, join_names
from headrace.configs.rules.rule import Violation, named
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import (
    CrossedFeature,
    CustomFeature,
    Feature,
    IdentityFeature,
    ImageFeature,
    NumericFeature,
    TextEmbeddingFeature,
    TextFeature,
)
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import CustomModel, ModelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig

Features = dict[str, Feature]
TENSOR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def names_are_tensor_names(features: Features) -> Iterator[Violation]:
    for name, feature in features.items():
        if not TENSOR_NAME.fullmatch(name):
            good = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "feature"
            good = f"feature_{good}" if good[0].isdigit() else good
            key = f', with `key: "{name}"` for the column' if getattr(feature, "key", name) is None else ""
            what = f'found "{name}"; use letters, digits and _, not starting with a digit, such as {good}{key}'
            yield ("features", name), named(what, "name", bool(key))


def names_differ_from_label(features: Features, label: LabelConfig) -> Iterator[Violation]:
    for key in label.columns:
        feature = features.get(key)
        if feature is not None and key not in reads(key, feature, features).values():
            yield ("features", key), named(f'"{key}" is the name of the label; choose another one', "name of the label")


def names_differ_from_weight(features: Features, label: LabelConfig) -> Iterator[Violation]:
    if label.weight is not None and label.weight in features:
        what = f'"{label.weight}" is the name of the weight (label.weight); choose another one'
        yield ("features", label.weight), f"{what}, with `key: {label.weight}` if the model is to read that column"


def features_do_not_read_label(features: Features, label: LabelConfig) -> Iterator[Violation]:
    for name, feature in features.items():
        for where, column in reads(name, feature, features).items():
            if column in label.columns:
                listed = isinstance(where[-1], int)
                way = f"remove it from {where[-2]}" if listed else "remove the feature"
                what = f'reads the label "{column}", which would leak the answer; {way}'
                yield where, named(what, "label", way, own=f'"{column}"')


def crosses_are_of_categories(features: Features) -> Iterator[Violation]:
    for where, name, key in crossed_keys(features):
        other = features.get(key)
        if key == name:
            what, way = "crosses itself", "give the cross a name that is not one of its keys"
        elif isinstance(other, NumericFeature):
            what, way = "is numeric, but a cross takes categories", bucketize(key)
        elif isinstance(other, CrossedFeature):
            what, way = "is a cross, and crosses cannot be nested", f"list its keys instead: {', '.join(other.keys)}"
        elif isinstance(other, ImageFeature | TextEmbeddingFeature):
            found = "an image" if isinstance(other, ImageFeature) else "the vector of a text"
            what, way = f"is {found}, but a cross takes categories", "remove it from keys"
        elif isinstance(other, CustomFeature) and other.num_categories is None:
            what, way = "is a number, but a cross takes categories", "set its num_categories"
        elif other is not None and other.is_number:
            what, way = f"is {other.column}, a number, but a cross takes categories", bucketize(key)
        else:
            continue
        nested = other.keys if isinstance(other, CrossedFeature) else ()
        yield where, named(f'"{key}" {what}; {way}', what, *nested, own=f'"{key}"')


def crosses_have_different_keys(features: Features) -> Iterator[Violation]:
    for name, feature in features.items():
        keys = getattr(feature, "keys", ())
        for number, key in enumerate(keys):
            if key in keys[:number]:
                yield (
                    ("features", name, "keys", number),
                    named(f'"{key}" is listed twice; remove one', "twice", own=f'"{key}"'),
                )


def delimited_text_is_separated(features: Features, data: DataConfig) -> Iterator[Violation]:
    """A field of a CSV file is one value unless it is split."""
    for name, feature in features.items():
        if (
            data.source.kind != "csv"
            or not getattr(feature, "multivalued", False)
            or isinstance(feature, TextEmbeddingFeature | TextFeature)
        ):
            continue
        if getattr(feature, "separator", None) is None:
            what = "a field of a CSV file is one value unless a `separator` splits it"
            way = "use a vocabulary or hashed feature with" if isinstance(feature, IdentityFeature) else "set"
            yield ("features", name, "multivalued"), f'{what}; {way} `separator: "|"`, or remove `multivalued`'


def next_word_follows_a_text(features: Features, label: LabelConfig) -> Iterator[Violation]:
    if label.text is None:
        return
    where: KeyPath = ("label", "text")
    feature = features.get(label.text)
    texts = [name for name, one in features.items() if isinstance(one, TextFeature)]
    if not isinstance(feature, TextFeature):
        found = f'"{label.text}" is not a feature with `column: text`'
        yield where, f"{found}{did_you_mean_or_list(label.text, texts, 'available')}" if texts else f"{found}; add one"
    elif feature.hash_buckets is not None:
        what = "hashes its words, so a word cannot be recovered from its bucket; remove its hash_buckets"
        yield where, f'"{label.text}" {what}'
    elif feature.max_tokens is not None and feature.keep == "first":
        what = "the first words of a longer text would be used, not those before the label; set `keep: last`"
        yield ("features", label.text, "max_tokens"), what


def crossed_features_have_one_value(features: Features) -> Iterator[Violation]:
    for where, name, key in crossed_keys(features):
        if key != name and (
            isinstance(features.get(key), TextFeature) or getattr(features.get(key), "multivalued", False)
        ):
            what = f'"{key}" may have multiple values per example, but a cross takes one of each key; cross a feature'
            what = f"{what} over the same column without `multivalued`, which uses the first"
            yield where, named(what, "multiple values", own=f'"{key}"')


def compiled_features_have_one_shape(features: Features, model: ModelConfig, train: TrainConfig) -> Iterator[Violation]:
    """A custom model may handle multiple values in a way that XLA can compile."""
    if train.jit != "on" or isinstance(model, CustomModel):
        return
    varying = [
        name
        for name, feature in features.items()
        if (not feature.padded if isinstance(feature, TextFeature) else getattr(feature, "multivalued", False))
    ]
    if varying:
        texts = [f"features.{name}.padded" for name in varying if isinstance(features[name], TextFeature)]
        names = join_names(f'"{name}"' for name in varying)
        what = f"XLA cannot compile a feature with a variable number of values, such as {names}; use `auto`"
        every = texts and len(texts) == len(varying)
        yield ("train", "jit"), f"{what}, or set {join_names(texts)}, with max_tokens" if every else what


def delimited_label_is_separated(label: LabelConfig, data: DataConfig) -> Iterator[Violation]:
    """A field of a CSV file is one class unless it is split."""
    for name, part in label.parts.items():
        if part.kind == "multilabel" and part.separator is None and data.source.kind == "csv":
            what = 'a field of a CSV file is one class unless a text splits it; set `separator: "|"`, or whatever it is'
            yield (*label.setting(name), "kind"), f"{what}, or `kind: multiclass`"


def reads(name: str, feature: Feature, features: Features) -> dict[KeyPath, str]:
    """The data columns that a feature reads directly, not through another feature, by the setting that names each."""
    named = feature.column_settings(name).items()
    through = features.keys() - {name} if isinstance(feature, CrossedFeature) else ()
    return {("features", name, *path): column for path, column in named if column not in through}


def crossed_keys(features: Features) -> Iterator[tuple[KeyPath, str, str]]:
    for name, feature in features.items():
        if isinstance(feature, CrossedFeature):
            for number, key in enumerate(feature.keys):
                yield ("features", name, "keys", number), name, key


def bucketize(key: str) -> str:
    return f"cross a bucketized one, such as {key}_bucket: {{column: bucketized, key: {key}, buckets: 10}}"
