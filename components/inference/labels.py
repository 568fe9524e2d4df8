"""The label: its kind and classes, and the metrics and threshold that a model has to beat guessing by.

label = choose_label(facts)           # raises DataError for a column that cannot be predicted
label.settings, label.metrics, label.threshold
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow.compute as pc

from headrace.common.errors import DataError
from headrace.common.exact_integers import EXACT_IN_FLOAT32
from headrace.components.inference.columns import boolean_pair, find_separator
from headrace.components.inference.comments import percent, rounded, show, show_of
from headrace.components.inference.facts import ColumnFacts

MAX_CLASSES = 100
"""Distinct texts up to which a column can be predicted as classes."""
INTEGER_CLASSES, ROWS_PER_CLASS = 20, 10
"""Distinct integers up to which they are classes, if there are so many rows for each."""
NO_AND_YES = (
    ("nein", "ja"),
    ("n", "j"),
    ("non", "oui"),
    ("no", "si"),
    ("no", "sí"),
    ("no", "sì"),
    ("não", "sim"),
    ("nao", "sim"),
    ("nee", "ja"),
    ("nej", "ja"),
    ("nei", "ja"),
    ("ei", "kyllä"),
    ("nie", "tak"),
    ("ne", "ano"),
    ("ne", "da"),
    ("nu", "da"),
    ("nem", "igen"),
    ("нет", "да"),
    ("ні", "так"),
    ("いいえ", "はい"),
    ("否", "是"),
    ("아니요", "예"),
    ("falsch", "wahr"),
    ("faux", "vrai"),
    ("falso", "vero"),
    ("falso", "verdadero"),
    ("falso", "verdadeiro"),
)
"""Words for no and yes, or false and true, in languages besides English, whose words `column: boolean` reads."""
Spelled = Callable[[], Mapping[Any, Sequence[str]]]
"""Returns the texts that a run reads for each value of a column that is declared as `string`."""
WRITE_THEM = (
    "; if a model is to write such texts, set `label.kind: text` in a config, with `model: {kind: encoder_decoder}`"
)
"""The way out for texts that are not classes."""


@dataclass(frozen=True)
class LabelChoice:
    """The label.

    settings: `label:` without `key`; comment: what was found; threshold: a metric with its bound, which guessing does
    not reach; baseline: says what guessing would; type: of the column, if it must be declared; several: whether a row
    may have several classes, and so none; rarest: rows of the class that has the fewest, if each row has one; alike:
    the classes of which each is another one in other letters or with other white space.
    """

    settings: Mapping[str, Any]
    comment: str
    metrics: tuple[str, ...]
    threshold: tuple[str, Mapping[str, float]]
    baseline: str
    type: str | None = None
    several: bool = False
    rarest: float = math.inf
    alike: Sequence[str] = ()


def choose_label(facts: ColumnFacts, spelled: Spelled = dict) -> LabelChoice:
    """The kind of label that a column is. Raises DataError, with the reason, for one that cannot be predicted.

    spelled: is called for two numbers that are not both integers, which are classes only as the texts of the data.
    """
    if reason := unfit_label(facts):
        raise DataError(f"cannot be the label: {reason}", column=facts.name)
    if facts.is_list:
        return _multilabel(facts, dict(facts.by_count()))
    if facts.kind == "string" and facts.distinct > 2 and (found := find_separator(facts)):
        return _multilabel(facts, _counted(facts, found[0]), found[0])
    if facts.distinct == 2:
        return _binary(facts, spelled) or _regression(facts, "; two numbers, but as texts they are not two classes")
    integers = facts.as_integers if facts.is_dense and facts.greatest <= EXACT_IN_FLOAT32 else None
    if facts.scalar == "string" or _counts_classes(integers or facts):
        return _multiclass(integers or facts)
    return _regression(facts)


def missing_setting(label: LabelChoice, *, in_task: bool) -> Literal["none", "mask", "drop"]:
    """The `missing` of a label that some rows lack. in_task: whether it is one of several labels."""
    return "none" if label.several else "mask" if in_task else "drop"


def unfit_label(facts: ColumnFacts) -> str | None:
    """Why a column cannot be predicted; None if it can."""
    if not facts.present:
        return "it has no values"
    if _is_separated(facts):
        return _unfit_list(facts)
    if facts.scalar == "bytes":
        return "it holds binary values"
    if facts.distinct == 1:
        return f"it has only one value, {show_of(facts, facts.least)}"
    return _unfit_text(facts) or ("it contains infinite values" if facts.has_infinity else None)


def _unfit_text(facts: ColumnFacts) -> str | None:
    if facts.scalar == "string" and facts.distinct > MAX_CLASSES:
        what = f"it is text with {facts.distinct:,} different values, and at most {MAX_CLASSES} can be classes"
        return f"{what}{WRITE_THEM}"
    if facts.scalar == "string" and facts.distinct > max(2, facts.present / 2):
        return f"it is text with {facts.distinct:,} different values in {facts.present:,} rows{WRITE_THEM}"
    return None


def _unfit_list(facts: ColumnFacts) -> str | None:
    """Why lists cannot be predicted as several classes at once."""
    if facts.is_list and facts.scalar not in ("string", "int"):
        return f"it holds lists of {'numbers' if facts.scalar == 'float' else 'binary values'}"
    found = None if facts.is_list else find_separator(facts)
    number = facts.distinct if found is None else len(found[1].unique())
    if number < 2:
        return f"its lists have only one value, {show(facts.least)}"
    what = f"its lists have {number:,} different values, and at most {MAX_CLASSES} can be classes"
    return what if number > MAX_CLASSES else None


def likely_labels(every: Iterable[ColumnFacts]) -> list[str]:
    """The columns that can be predicted as classes or numbers, the fewest classes first."""
    plain = (
        facts for facts in every if not facts.is_list and (facts.scalar != "string" or facts.distinct <= MAX_CLASSES)
    )
    fit = [facts for facts in plain if unfit_label(facts) is None]
    ids = {facts.name for facts in fit if facts.is_whole and facts.distinct == facts.present}
    few = sorted((one for one in fit if one.distinct <= INTEGER_CLASSES), key=lambda facts: facts.distinct)
    return [facts.name for facts in [*few, *(one for one in fit if one not in few)] if facts.name not in ids]


def _is_separated(facts: ColumnFacts) -> bool:
    return facts.is_list or (facts.kind == "string" and facts.distinct > 2 and find_separator(facts) is not None)


def _counts_classes(facts: ColumnFacts) -> bool:
    few = facts.scalar == "int" and facts.distinct <= INTEGER_CLASSES
    return few and facts.present >= ROWS_PER_CLASS * facts.distinct


def _binary(facts: ColumnFacts, spelled: Spelled) -> LabelChoice | None:
    """None if the two values are not those of two classes."""
    pair = boolean_pair(facts) or _yes_last(facts) or _rarer_last(facts)
    classes, declared = _class_values(facts, [*pair], spelled)
    if not classes:
        return None
    share = dict(facts.by_count())[pair[1]] / facts.present
    settings: dict[str, Any] = {"kind": "binary"} if classes == [0, 1] else {"kind": "binary", "classes": classes}
    comment = f"{show_of(facts, classes[1])} in {percent(share)} of the rows: the model predicts its probability"
    return LabelChoice(
        settings,
        comment,
        ("auc", "binary_accuracy", "binary_crossentropy"),
        ("auc", {"min": 0.55}),
        f"Guessing gives an AUC of 0.5, and the more frequent class an accuracy of {max(share, 1 - share):.3f}",
        declared,
        rarest=pc.min(facts.counts).as_py(),
    )


def _yes_last(facts: ColumnFacts) -> tuple[Any, ...]:
    """The two values, if they mean no and yes in one of the other languages: first no."""
    words = {str(value).strip().casefold(): value for value in facts.values.to_pylist()}
    return next(((words[no], words[yes]) for no, yes in NO_AND_YES if {no, yes} == words.keys()), ())


def _rarer_last(facts: ColumnFacts) -> tuple[Any, ...]:
    """The two values: first the more frequent one. What is to be predicted is mostly rare: a fault, a cancellation."""
    counts = dict(facts.by_count())
    return tuple(sorted(facts.values.to_pylist(), key=lambda value: -counts[value]))


def _class_values(facts: ColumnFacts, values: list[Any], spelled: Spelled) -> tuple[list[Any], str | None]:
    """The classes as strings or integers, and the type to declare for numbers that are neither. No classes if such a
    number has no text of its own.
    """
    if facts.scalar != "float":
        return values, None
    if facts.is_whole and max(map(abs, values)) <= EXACT_IN_FLOAT32:
        return [int(value) for value in values], None
    texts = spelled()
    found = [texts.get(value, ()) for value in values]
    return ([text for (text,) in found], "string") if all(len(one) == 1 for one in found) else ([], None)


def _multiclass(facts: ColumnFacts) -> LabelChoice:
    values = facts.values.to_pylist()
    classes: Any = len(values) if values == [*range(len(values))] else values
    most, count = next(facts.by_count())
    share = count / facts.present
    return LabelChoice(
        {"kind": "multiclass", "classes": classes},
        f"{facts.distinct} classes; the most frequent is {show(most)} ({percent(share)})",
        ("accuracy", "crossentropy"),
        ("accuracy", {"min": _ceiling(share + 0.1 * (1 - share))}),
        f"Always predicting {show(most)} gives {share:.3f}",
        rarest=pc.min(facts.counts).as_py(),
        alike=_alike(values),
    )


def _alike(values: Sequence[Any]) -> list[str]:
    """The texts that others equal but for upper case and white space, all in order."""
    spelled = Counter(" ".join(str(value).casefold().split()) for value in values)
    texts = [value for value in values if isinstance(value, str)]
    return [text for text in texts if spelled[" ".join(text.casefold().split())] > 1]


def _multilabel(facts: ColumnFacts, counts: Mapping[Any, int], separator: str | None = None) -> LabelChoice:
    """counts: of the rows in each class."""
    values = sorted(counts)
    classes: Any = len(values) if values == [*range(len(values))] else values
    most = max(values, key=lambda value: counts[value])
    each = sum(counts.values()) / facts.present
    settings: dict[str, Any] = {"kind": "multilabel", "classes": classes}
    return LabelChoice(
        settings if separator is None else {**settings, "separator": separator},
        f"{len(values)} classes, {each:.1f} in a row; the most frequent is {show(most)} ({counts[most]:,} rows)",
        ("macro_auc", "micro_f1", "binary_crossentropy"),
        ("macro_auc", {"min": 0.55}),
        "Guessing gives a macro AUC of 0.5",
        several=True,
    )


def _counted(facts: ColumnFacts, separator: str) -> dict[str, int]:
    """How many rows have each item of a list in one text."""
    found: Counter[str] = Counter()
    for text, count in facts.by_count():
        for item in {one.strip() for one in text.split(separator)} - {""}:
            found[item] += count
    return dict(found)


def _regression(facts: ColumnFacts, why: str = "") -> LabelChoice:
    mean, deviation, _ = facts.moments
    around = f"mean {rounded(mean, 4)}, standard deviation {rounded(deviation, 4)}"
    return LabelChoice(
        {"kind": "regression"},
        f"{show(facts.least)} to {show(facts.greatest)}, {around}{why}",
        ("r_squared", "root_mean_squared_error", "mean_absolute_error"),
        ("r_squared", {"min": 0.1}),
        f"Always predicting the mean gives an R² of 0, and a root mean squared error of {rounded(deviation, 4)}",
    )


def _ceiling(share: float) -> float:
    return min(math.ceil(1000 * share) / 1000, 0.999)
