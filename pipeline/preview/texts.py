"""What the texts of a column are where numbers are needed, and what to do about them.

texts = texts_of(facts, config.data.source, "feature")
texts.what, texts.example, texts.way
# "dates", " such as 21.11.2026", "`column: datetime` reads a part of them, ..."

The way out of a category, a list or a text is the feature that `headrace init` would write for the column.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from headrace.common.errors import DataError
from headrace.configs.loading.editing import to_flow
from headrace.configs.schema.sources import SourceConfig

if TYPE_CHECKING:
    from headrace.components.inference.columns import Choice
    from headrace.components.inference.facts import ColumnFacts

Use = Literal["feature", "label", "weight"]
"""What needs the numbers."""
SHOWN = 40
"""Characters of a value that a message shows."""
LISTED = 12
"""Values of a vocabulary up to which a message lists them."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?|\d{1,2}[./]\d{1,2}[./](\d{2}|\d{4})( .*)?")
_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_DATES = "`column: datetime` reads a part of them, such as `part: weekday`, or the days until a `reference`"
_ELSEWHERE = {
    "label": "predict a column of numbers, or compute one in the data",
    "weight": "name a column of numbers, from 0 up, or remove `weight`",
}


class TextDiagnosis(NamedTuple):
    """what: in words, the same for all columns with the same mistake; example: ` such as 3,5`, or nothing; way: what to
    do; None if most of the texts are numbers, so that the others are the mistake.
    """

    what: str
    example: str = ""
    way: str | None = None


def texts_of(facts: ColumnFacts, source: SourceConfig, use: Use) -> TextDiagnosis:
    """What the texts of a column of the kind `string` or `bytes` are."""
    if facts.scalar != "string" or not facts.present:
        return TextDiagnosis(
            "binary values", way=_ELSEWHERE.get(use, "leave the column out, or read it as `column: image`")
        )
    found = _dates(facts, use) or _marked(facts, source) or _mostly_numbers(facts) or _with_unit(facts, use)
    if found is not None:
        return found
    if use == "weight":
        return TextDiagnosis("text", _example(facts), _ELSEWHERE[use])
    return _of_label(facts) if use == "label" else _of_feature(facts)


def _dates(facts: ColumnFacts, use: Use) -> TextDiagnosis | None:
    """Dates that `column: datetime` reads, or whose first value at least looks like one."""
    from headrace.components.inference.dates import find_dates

    dates = find_dates(facts)
    if dates is None and (facts.is_list or not _DATE.fullmatch(facts.texts[0].as_py())):
        return None
    if use != "feature":
        return TextDiagnosis("dates", f" such as {facts.least}", _ELSEWHERE[use])
    way = _DATES if dates is None or dates.format is None else f"{_DATES}; set `format: {to_flow(dates.format)}`"
    return TextDiagnosis("dates", f" such as {facts.least}", way)


def _marked(facts: ColumnFacts, source: SourceConfig) -> TextDiagnosis | None:
    """Numbers with a decimal comma, or with marks between groups of digits."""
    import pyarrow.compute as pc

    from headrace.components.inference.number_marks import are_numbers, number_marks

    texts = facts.texts.filter(pc.match_substring_regex(facts.texts, "[0-9]"))
    odd = texts.filter(pc.invert(pc.match_substring_regex(texts, f"^{_NUMBER}$")))
    if not len(odd):
        return None
    delimiter = getattr(source, "delimiter", ";") if hasattr(source, "decimal") else ";"
    marks = {name: mark for name, mark in number_marks(delimiter, [texts]).items() if getattr(source, name, "") != mark}
    comma = not marks and are_numbers(texts, ",")
    if not marks and not comma:
        return None
    what = "numbers with a decimal comma" if comma or "decimal" in marks else "numbers with digits in groups"
    settings = " and ".join(f"`data.source.{name}: {to_flow(mark)}`" for name, mark in marks.items())
    if not hasattr(source, "decimal"):
        way = "convert them to numbers in the data"
    elif comma:
        way = "`data.source.decimal: ','` would read them, but the comma is the delimiter too: save the file with"
        way = f"{way} another delimiter, such as ';', or with decimal points"
    else:
        way = f"set {settings}"
    return TextDiagnosis(what, f" such as {odd[0].as_py()!r}", way)


def _mostly_numbers(facts: ColumnFacts) -> TextDiagnosis | None:
    """Numbers with some other texts among them, which are the mistake; or numbers that are stored as text."""
    import pyarrow.compute as pc

    if facts.is_list:
        return None
    numbers = pc.match_substring_regex(facts.texts, f"^{_NUMBER}$")
    return TextDiagnosis("text") if (pc.mean(numbers).as_py() or 0.0) >= 0.5 else None


def _with_unit(facts: ColumnFacts, use: Use) -> TextDiagnosis | None:
    """Numbers that all have a unit, such as `50%`, `$3.50` and `3 km`."""
    from headrace.components.inference.units import units_of

    if facts.is_list or not units_of(facts.texts.to_pylist()):
        return None
    way = "remove the unit in the data" + (", or compute a number with `column: custom`" if use == "feature" else "")
    return TextDiagnosis("numbers with a unit", _example(facts), way)


def _of_feature(facts: ColumnFacts) -> TextDiagnosis:
    from headrace.components.inference import columns
    from headrace.pipeline.preview.vectors import vector_settings

    vector = None if facts.is_list else vector_settings(facts.texts.to_pylist())
    if vector is not None:
        return TextDiagnosis("lists of numbers", _example(facts), f"use {to_flow(vector)}")
    choice = columns.choose(facts)
    what = {columns.LISTS: "lists of texts", columns.BOOLEANS: "false and true"}.get(choice.group, "text")
    if choice.group == columns.LEFT_OUT:
        return TextDiagnosis(
            what, _example(facts), f"leave the column out, as there is nothing to learn from: {choice.comment}"
        )
    return TextDiagnosis(what, _example(facts), f"use {_shortened(choice)}")


def _shortened(choice: Choice) -> str:
    """The settings of the first feature, without a long list of values."""
    settings = dict(next(iter(choice.features.values())))
    if len(settings.get("values", ())) > LISTED:
        del settings["values"]
    return to_flow(settings)


def _of_label(facts: ColumnFacts) -> TextDiagnosis:
    """What can be predicted instead of a number."""
    from headrace.components.inference.labels import choose_label

    try:
        settings = dict(choose_label(facts).settings)
    except DataError as error:
        return TextDiagnosis("text", _example(facts), f"it cannot be predicted as classes either: {error.what}")
    if not isinstance(classes := settings.get("classes", ()), int) and len(classes) > LISTED:
        return TextDiagnosis("text", _example(facts), f"set `kind: {settings['kind']}`, with its values as `classes`")
    return TextDiagnosis(
        "text",
        _example(facts),
        "set " + " and ".join(f"`{name}: {to_flow(value)}`" for name, value in settings.items()),
    )


def _example(facts: ColumnFacts) -> str:
    """The first value that is not a number."""
    texts = facts.texts.to_pylist()
    text = next((one for one in texts if not re.fullmatch(_NUMBER, one)), texts[0])
    return f" such as {text if len(text) <= SHOWN else text[: SHOWN - 3] + '...'!r}"
