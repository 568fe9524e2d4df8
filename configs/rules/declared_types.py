"""The rules about declared types (`data.types`): features, vocabularies and labels that need others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headrace.configs.rules.features import Features, bucketize, crossed_keys, reads
from headrace.configs.rules.rule import Violation, named
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import NumericFeature, VocabularyFeature
from headrace.configs.schema.label import LabelConfig

UNSCALED = frozenset({"log", "none"})
"""The settings of `normalize` that subtract nothing, so that close numbers become the same float32."""


def crossed_columns_are_not_float(features: Features, data: DataConfig) -> Iterator[Violation]:
    for where, name, key in crossed_keys(features):
        if (key not in features or key == name) and data.types.get(key) in ("float", "float64"):
            what = f'"{key}" is a float column (data.types), but a cross takes categories; {bucketize(key)}'
            yield where, named(what, "float", own=f'"{key}"')


def declared_types_fit_features(features: Features, data: DataConfig) -> Iterator[Violation]:
    for name, feature in features.items():
        fitting = feature.fitting_types
        column = feature.data_column(name)
        declared: str | None = data.types.get(column)
        one = None if declared is None else "float" if declared == "float64" else declared.removesuffix(" list")
        if fitting and one is not None and one not in fitting:  # the first of multiple values is used
            what = f'column "{column}" is {declared} (data.types), but {feature.column} takes {" or ".join(fitting)}'
            what = f"{what}; {feature.remedy}, or change its type"
            yield ("features", name, "column"), named(what, feature.column, declared)


def values_are_written_as_their_type(features: Features, data: DataConfig) -> Iterator[Violation]:
    for name, feature in features.items():
        column = feature.data_column(name)
        declared = (data.types.get(column) or "").removesuffix(" list")
        values = feature.values if isinstance(feature, VocabularyFeature) and declared == "int" else None
        if what := not_written_as_integers(values or ()):
            yield ("features", name, "values"), named(f'column "{column}" {what}', what)


def not_written_as_integers(values: Sequence[str | int]) -> str | None:
    """What is wrong with the values of a vocabulary of integers: one is a misspelled integer, such as "1,200", or none
    of them is an integer; None if nothing is. Among integers, others such as "unknown" are of use: for later data.
    """
    odd = [value for value in map(str, values) if not re.fullmatch(r"0|-?[1-9]\d*", value, re.ASCII)]
    for value in odd:
        digits = re.sub(r"[^\d-]", "", value, flags=re.ASCII)
        if re.fullmatch(r"\s*[-+]?\d[\d ,.'_]*\s*", value, re.ASCII) and re.fullmatch(r"-?\d+", digits):
            return f"holds integers, and none is written {value!r}; write {int(digits)}"
    if not odd or len(odd) < len([*values]):
        return None
    return (
        f"holds integers, and none is written {odd[0]!r}; remove it, or declare `string` for the column in data.types"
    )


def among_integers(values: Sequence[str | int]) -> str | None:
    """What is odd about the values of a vocabulary of integers if some are not integers; None if all are."""
    odd = next((value for value in map(str, values) if not re.fullmatch(r"-?\d+", value, re.ASCII)), None)
    return None if odd is None else f"holds integers, and none is written {odd!r}, which matches nothing so far"


def float64_is_read_as_a_number(features: Features, data: DataConfig, label: LabelConfig) -> Iterator[Violation]:
    read = {
        column
        for name, feature in features.items()
        if feature.list_size is None
        for column in reads(name, feature, features).values()
    }
    lists = {column for name, one in features.items() if one.list_size for column in one.column_settings(name).values()}
    for column in (name for name in data.float64_columns if name not in (*label.columns, label.weight)):
        if column not in read and column in lists:
            what = "the positions of a vector are computed from float32; found float64"
            way = "declare `float list`, and if its digits matter, subtract a constant from the values in the data"
            yield ("data", "types", column), f"{what}; {way}"
        elif column not in read:
            what = "no feature reads the column as one number, so its further digits would be of no use"
            yield ("data", "types", column), f"{what}; declare float, or add a feature such as {{column: numeric}}"
        elif data.source.kind == "tfrecord":
            what = "a TFRecord of tf.Example holds float32, which has lost the further digits"
            yield ("data", "types", column), f"{what}; declare float, or read the data that the examples were made of"


def float64_is_scaled(features: Features, data: DataConfig) -> Iterator[Violation]:
    for name, feature in features.items():
        column = feature.data_column(name)
        if isinstance(feature, NumericFeature) and feature.normalize in UNSCALED and column in data.float64_columns:
            what = f'the result is float32, and nothing is subtracted, so the digits for which "{column}" is float64'
            way = "use z_score or min_max, or declare float"
            what = f"{what} (data.types) are lost with {feature.normalize}; {way}"
            yield ("features", name, "normalize"), named(what, "lost digits", own=feature.normalize)


def declared_type_fits_label(label: LabelConfig, data: DataConfig) -> Iterator[Violation]:
    for part in label.parts.values():
        yield from _declared_type_fits(part, data)


def _declared_type_fits(label: LabelConfig, data: DataConfig) -> Iterator[Violation]:
    declared: str | None = data.types.get(label.key)
    if declared is None:
        return
    if declared == "float64":
        yield ("data", "types", label.key), "labels are float32 in training; found float64; declare float or int"
        return
    if label.kind == "regression" and declared == "string":
        yield ("data", "types", label.key), "a regression label is a number; found string; declare int or float"
    if label.kind == "multilabel":
        declared = declared.removesuffix(" list")
    texts = label.separator is not None or any(isinstance(value, str) for value in label.class_values)
    if label.kind in {"next_word", "text"} and declared != "string":
        is_ = "a word" if label.kind == "next_word" else "a text"
        what = f"the label is {is_}, but its column is declared {declared}; declare string"
        yield ("data", "types", label.key), what
    elif label.kind not in {"regression", "next_word", "text"} and texts != (declared == "string"):
        now, fit = ("strings", "string") if texts else ("integers", "int")
        now = "in one text" if label.separator is not None else now
        what = f"the label's classes are {now}, but its column is declared {declared}"
        yield ("data", "types", label.key), f"{what}; declare {fit}, or list its values in label.classes"


def declared_type_fits_weight(label: LabelConfig, data: DataConfig) -> Iterator[Violation]:
    declared = data.types.get(label.weight or "")
    if declared not in (None, "int", "float"):
        yield ("data", "types", label.weight or ""), f"a weight is a number; found {declared}; declare float or int"
