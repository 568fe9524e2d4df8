"""The rules between features, label and declared types, one short function each (rule.py says how they are called)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from headrace.configs.data import DataConfig
from headrace.configs.features import (
    CrossedFeature,
    CustomFeature,
    Feature,
    IdentityFeature,
    NumericFeature,
    TextFeature,
    data_columns,
)
from headrace.configs.image import ImageFeature
from headrace.configs.label import LabelConfig
from headrace.configs.models import ModelConfig, OwnModel
from headrace.configs.suggest import meant
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

Features = dict[str, Feature]
Finding = tuple[Where, str]

TENSOR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FITTING_TYPES = {
    "numeric": ("int", "float"),
    "bucketized": ("int", "float"),
    "identity": ("int",),
    "vocabulary": ("int", "string"),
    "hashed": ("int", "string"),
    "text": ("int", "string"),
    "image": ("bytes",),
}
"""For each kind of feature over one column: the types of column it takes."""
REMEDIES = {
    "numeric": "use a vocabulary or hashed feature",
    "bucketized": "use a vocabulary or hashed feature",
    "identity": "use a vocabulary or hashed feature for texts, a bucketized one for fractions",
    "vocabulary": "use a bucketized feature",
    "hashed": "use a bucketized feature",
    "text": "use a numeric feature",
    "image": "use a vocabulary or hashed feature for texts",
}


def names_are_tensor_names(features: Features) -> Iterator[Finding]:
    for name, feature in features.items():
        if not TENSOR_NAME.fullmatch(name):
            good = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "feature"
            good = f"feature_{good}" if good[0].isdigit() else good
            key = f', with `key: "{name}"` for the column' if getattr(feature, "key", name) is None else ""
            what = f'a feature\'s name is letters, digits and _, no digit first; found "{name}"; call it {good}{key}'
            yield ("features", name), what


def names_differ_from_label(features: Features, label: LabelConfig) -> Iterator[Finding]:
    feature = features.get(label.key)
    if feature is not None and label.key not in _reads(label.key, feature, features):
        yield ("features", label.key), f'"{label.key}" is the label, which keeps its name; give the feature another one'


def features_do_not_read_label(features: Features, label: LabelConfig) -> Iterator[Finding]:
    for name, feature in features.items():
        if label.key in _reads(name, feature, features):
            where = _where_read(name, feature, label.key)
            what = f'reads the label "{label.key}": the model would learn from the answer; remove the feature'
            yield where, what.replace("remove the feature", "remove it from keys") if len(where) == 4 else what


def crosses_are_of_categories(features: Features) -> Iterator[Finding]:
    for where, name, key in _crossed_keys(features):
        other = features.get(key)
        if key == name:
            yield where, f'"{key}" crosses itself; give the cross a name that is none of its keys'
        elif isinstance(other, NumericFeature):
            yield where, f'"{key}" is numeric, and a cross takes categories; {_bucketize(key)}'
        elif isinstance(other, CrossedFeature):
            keys = ", ".join(other.keys)
            yield where, f'"{key}" is a cross itself, and crosses do not nest; list its keys here instead: {keys}'
        elif isinstance(other, ImageFeature):
            yield where, f'"{key}" is an image, and a cross takes categories; remove it from keys'
        elif isinstance(other, CustomFeature) and other.num_categories is None:
            yield where, f'"{key}" gives a number, and a cross takes categories; set its num_categories'


def crosses_have_different_keys(features: Features) -> Iterator[Finding]:
    for name, feature in features.items():
        keys = getattr(feature, "keys", ())
        for number, key in enumerate(keys):
            if key in keys[:number]:
                yield ("features", name, "keys", number), f'"{key}" stands here twice; remove one'


def crossed_columns_are_not_float(features: Features, data: DataConfig) -> Iterator[Finding]:
    for where, name, key in _crossed_keys(features):
        if (key not in features or key == name) and data.types.get(key) == "float":
            yield where, f'"{key}" is a float column (data.types), and a cross takes categories; {_bucketize(key)}'


def declared_types_fit_features(features: Features, data: DataConfig) -> Iterator[Finding]:
    for name, feature in features.items():
        fitting = FITTING_TYPES.get(feature.column)
        column = getattr(feature, "key", None) or name
        declared: str | None = data.types.get(column)
        one = declared.removesuffix(" list") if declared is not None else None  # of several values the first counts
        if fitting is not None and one is not None and one not in fitting:
            what = f'column "{column}" is {declared} (data.types), and {feature.column} takes {" or ".join(fitting)}'
            yield ("features", name, "column"), f"{what}; {REMEDIES[feature.column]}, or change its type"


def delimited_text_is_separated(features: Features, data: DataConfig) -> Iterator[Finding]:
    """A field of a CSV file is one value unless it is cut."""
    for name, feature in features.items():
        if data.source.kind != "csv" or not getattr(feature, "multivalued", False) or isinstance(feature, TextFeature):
            continue
        if getattr(feature, "separator", None) is None:
            what = "a field of a CSV file holds one text, which is cut into values only at a `separator`"
            way = "use a vocabulary or hashed feature with" if isinstance(feature, IdentityFeature) else "say"
            yield ("features", name, "multivalued"), f'{what}; {way} `separator: "|"`, or remove the line'


def next_word_follows_a_text(features: Features, label: LabelConfig) -> Iterator[Finding]:
    if label.text is None:
        return
    where: Where = ("label", "text")
    feature = features.get(label.text)
    texts = [name for name, one in features.items() if isinstance(one, TextFeature)]
    if not isinstance(feature, TextFeature):
        found = f'"{label.text}" is no feature with `column: text`'
        yield where, f"{found}{meant(label.text, texts, 'such are')}" if texts else f"{found}; there is none yet"
    elif feature.hash_buckets is not None:
        yield where, f'"{label.text}" hashes its words, and which word is meant cannot be told; drop its hash_buckets'
    elif feature.max_tokens is not None and feature.keep == "first":
        what = "of a longer text the first words would be kept, and not those that the label follows; say `keep: last`"
        yield ("features", label.text, "max_tokens"), what


def crossed_features_have_one_value(features: Features) -> Iterator[Finding]:
    for where, name, key in _crossed_keys(features):
        if key != name and (
            isinstance(features.get(key), TextFeature) or getattr(features.get(key), "multivalued", False)
        ):
            what = f'"{key}" may have several values in an example, and a cross takes one of each key; cross a feature'
            yield where, f"{what} of the same column without `multivalued`, which takes the first"


def compiled_features_have_one_shape(features: Features, model: ModelConfig, train: TrainConfig) -> Iterator[Finding]:
    """A model of the user's own may take several values in a way that XLA can compile."""
    if train.jit != "on" or isinstance(model, OwnModel):
        return
    for name, feature in features.items():
        text = isinstance(feature, TextFeature)
        if not feature.padded if isinstance(feature, TextFeature) else getattr(feature, "multivalued", False):
            what = f'XLA cannot compile what takes any number of values, as "{name}" has; use `auto`'
            padded = f", or set features.{name}.padded, with max_tokens" if text else ""
            yield ("train", "jit"), what + padded


def declared_type_fits_label(label: LabelConfig, data: DataConfig) -> Iterator[Finding]:
    declared = data.types.get(label.key)
    if declared is None:
        return
    if label.kind == "regression" and declared == "string":
        yield ("data", "types", label.key), "the label of a regression is a number; found string; declare int or float"
    texts = any(isinstance(value, str) for value in label.class_values)
    if label.kind == "next_word" and declared != "string":
        yield (
            ("data", "types", label.key),
            f"the label is a word, and its column is declared {declared}; declare string",
        )
    elif label.kind not in {"regression", "next_word"} and texts != (declared == "string"):
        now, fit = ("texts", "string") if texts else ("integers", "int")
        what = f"the label's classes are {now}, and its column is declared {declared}"
        yield ("data", "types", label.key), f"{what}; declare {fit}, or list its values in label.classes"


def _reads(name: str, feature: Feature, features: Features) -> tuple[str, ...]:
    """The data columns that a feature reads itself; what it reads through another feature is that one's matter."""
    if isinstance(feature, CrossedFeature):
        return tuple(key for key in feature.keys if key not in features or key == name)
    return feature.keys if isinstance(feature, CustomFeature) else data_columns(name, feature, features)


def _where_read(name: str, feature: Feature, column: str) -> Where:
    keys: tuple[str, ...] = getattr(feature, "keys", ())
    if column in keys:
        return ("features", name, "keys", keys.index(column))
    return ("features", name, "key") if getattr(feature, "key", None) else ("features", name)


def _crossed_keys(features: Features) -> Iterator[tuple[Where, str, str]]:
    for name, feature in features.items():
        if isinstance(feature, CrossedFeature):
            for number, key in enumerate(feature.keys):
                yield ("features", name, "keys", number), name, key


def _bucketize(key: str) -> str:
    return f"cross a bucketized one, such as {key}_bucket: {{column: bucketized, key: {key}, buckets: 10}}"


RULES: tuple[Callable[..., Iterator[Finding]], ...] = (
    names_are_tensor_names,
    names_differ_from_label,
    features_do_not_read_label,
    crosses_are_of_categories,
    crosses_have_different_keys,
    crossed_columns_are_not_float,
    declared_types_fit_features,
    declared_type_fits_label,
    next_word_follows_a_text,
    crossed_features_have_one_value,
    compiled_features_have_one_shape,
    delimited_text_is_separated,
)
