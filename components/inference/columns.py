"""What to do with each column: the features to compute from it, or the reason to leave it out.

choice = choose(facts)
choice.group, choice.features, choice.comment
# "dates", {"_month": {"column": "datetime", "part": "month"}, ...}, "2024-01-02 to 2026-11-21"
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.figures import plural
from headrace.components.examples.tfexample.rounding import COARSE, lost_digits
from headrace.components.inference.column_names import CODE, CODE_OF_FLOATS, DENSE_CODE, ID, matches
from headrace.components.inference.comments import missing_share, percent, rounded, show, show_of
from headrace.components.inference.dates import EPOCHS, are_dates_of_several_formats, find_dates
from headrace.components.inference.facts import ColumnFacts
from headrace.components.inference.images import image_settings
from headrace.components.inference.units import units_of
from headrace.configs.schema.features import FALSE_WORDS, TRUE_WORDS
from headrace.configs.schema.features.calendar import EPOCH_UNITS, has_date

Settings = Mapping[str, Any]

LISTED, LEARNED = 31, 1000
"""Distinct values up to which a vocabulary is listed, or learned; more are hashed."""
MOSTLY_NUMBERS = 0.9
"""The fraction of texts with a decimal mark from which on a column is numbers that are read as text."""
MANY_ROWS = 20
"""Rows from which on a different value in each row makes an id."""
SKEWNESS, SKEWED_FROM = 3.0, 100.0
"""Skewness, and greatest value, above which a number without negative values is scaled by its logarithm."""
LEAST_PRESENT = 0.01
"""Fraction of the rows that must have a value."""
TEXT_WORDS = 5.0
"""Average words above which a string is a text."""
LIST_SEPARATORS = ("|", ";", ",", "/")
"""What may divide the items of a list in one text: the first that does."""
LEAST_LISTS = 5
"""Distinct texts from which on they may be lists."""

NUMBERS, CATEGORIES, BOOLEANS, DATES = "numbers", "categories", "booleans", "dates"
TEXTS, LISTS, VECTORS, IMAGES, LEFT_OUT = "texts", "lists", "vectors", "images", "left out"

_MIDNIGHT = re.compile(r"([ T]00:00(:00)?)?([.]0+)?$")
_NUMBER = r"[-+]?(\d+[.]?\d*|[.]\d+)([eE][-+]?\d+)?"
_MARKED_NUMBER = r"^[-+]?\d*[.,]\d+$"


@dataclass(frozen=True)
class Choice:
    """What to do with a column.

    group: NUMBERS, CATEGORIES, ... or LEFT_OUT; features: their settings without `key`, by what each adds to the name
    of the column; comment: what was found, or the reason to leave it out; suspicion: why it may give the label away;
    lost_digits: what float32 would lose that the column needs, or nothing; mendable: whether it is left out for how its
    values are written, which the data could change; type: of the column, if it must be declared.
    """

    column: str
    group: str
    comment: str
    features: Mapping[str, Settings] = field(default_factory=dict)
    suspicion: str = ""
    lost_digits: str = ""
    mendable: bool = False
    type: str | None = None


def choose(facts: ColumnFacts, *, fixed: bool = False) -> Choice:
    """What to do with a column that is not the label. fixed: whether its type cannot be declared."""
    if not fixed and (found := _code_of_floats(facts)):
        return found
    if reason := _useless(facts):
        return Choice(facts.name, LEFT_OUT, reason)
    rules: tuple[Callable[[ColumnFacts], Choice | None], ...] = (
        _image,
        _vector,
        _list,
        _boolean,
        _dates,
        _several_formats,
        _with_unit,
        _id,
        _string,
        _code,
        _number,
    )
    return next(found for rule in rules if (found := rule(facts)))


def _useless(facts: ColumnFacts) -> str | None:
    if not facts.present:
        return "no values"
    if facts.present < LEAST_PRESENT * facts.rows:
        return f"only {facts.present:,} of {facts.rows:,} rows have a value"
    if facts.distinct == 1 and not facts.missing:
        return f"the same value in all rows: {show_of(facts, facts.least)}"
    if facts.scalar == "bytes" and image_settings(facts) is None:
        return "binary values; an image is `column: image`, with its height and width"
    if facts.is_list and facts.scalar == "float" and facts.shortest < facts.longest:
        what = f"lists of {facts.shortest:,} to {facts.longest:,} numbers"
        return f"{what}; a vector needs one length, so compute numbers from them with `column: custom`"
    return "contains infinite values, which stop a run" if facts.has_infinity else None


def _image(facts: ColumnFacts) -> Choice | None:
    found = image_settings(facts)
    return None if found is None else Choice(facts.name, IMAGES, found[1] + missing_share(facts), {"": found[0]})


def _vector(facts: ColumnFacts) -> Choice | None:
    if facts.kind == "string":
        return _vector_of_texts(facts)
    if not (facts.is_list and facts.scalar == "float"):
        return None
    what = f"lists of {facts.longest:,} numbers, {show(facts.least)} to {show(facts.greatest)}"
    settings = {"column": "vector", "size": facts.longest}
    return Choice(facts.name, VECTORS, what + missing_share(facts), {"": settings})


def _vector_of_texts(facts: ColumnFacts) -> Choice | None:
    """Lists of numbers in brackets, such as `[0.1, 0.2]`, that all have the same length."""
    if not facts.texts[0].as_py().startswith(("[", "(")):
        return None
    sizes = pc.count_substring_regex(facts.texts, _NUMBER).unique()
    for separator, mark in ((",", r"\s*,\s*"), (";", r"\s*;\s*"), (" ", r"\s+")):
        pattern = rf"^[\[(]\s*{_NUMBER}({mark}{_NUMBER})+\s*[\])]$"
        if len(sizes) == 1 and pc.all(pc.match_substring_regex(facts.texts, pattern)).as_py():
            settings = {"column": "vector", "size": sizes[0].as_py(), "separator": separator}
            what = f"texts of {settings['size']:,} numbers, such as {show(facts.least)}"
            return Choice(facts.name, VECTORS, what + missing_share(facts), {"": settings})
    return None


def _list(facts: ColumnFacts) -> Choice | None:
    if facts.is_list:
        what = f"up to {facts.longest:,} values in a row, {plural(facts.distinct, 'different value')}"
        return Choice(facts.name, LISTS, what, {"": {**_vocabulary_or_hash(facts.distinct), "multivalued": True}})
    return None


def _boolean(facts: ColumnFacts) -> Choice | None:
    pair = boolean_pair(facts)
    if pair is None:
        return None
    share = dict(facts.by_count())[pair[1]] / facts.present
    what = f"{show_of(facts, pair[0])} or {show_of(facts, pair[1])} ({percent(share)})"
    return Choice(facts.name, BOOLEANS, what + missing_share(facts), {"": {"column": "boolean"}})


def boolean_pair(facts: ColumnFacts) -> tuple[Any, Any] | None:
    """The values for false and true of a column that has just these two."""
    if facts.distinct != 2 or facts.is_list or facts.scalar == "bytes":
        return None
    words = {_word(value): value for value in facts.values.to_pylist()}
    pairs = ((false, true) for false, true in zip(FALSE_WORDS, TRUE_WORDS, strict=True) if {false, true} == set(words))
    return next(((words[false], words[true]) for false, true in pairs), None)


def _word(value: object) -> str:
    return f"{value + 0.0:g}" if isinstance(value, float) else str(value).strip().lower()


def _dates(facts: ColumnFacts) -> Choice | None:
    dates = find_dates(facts)
    if dates is None:
        return None
    written = {} if dates.format is None else {"format": dates.format}
    features = {f"_{part}": {"column": "datetime", "part": part, **written} for part in dates.parts}
    first, last = (_MIDNIGHT.sub("", show(_moment(value, dates.format))) for value in (facts.least, facts.greatest))
    what = f"{first} to {last}" if _sorts(dates.format) else f"such as {first}"
    if not has_date(dates.format):
        what = f"times of day, {what}"
    if dates.ambiguous is not None:
        what += f"; if the month comes first, the format is {dates.ambiguous}"
    return Choice(facts.name, DATES, what + missing_share(facts), features)


def _several_formats(facts: ColumnFacts) -> Choice | None:
    if facts.kind != "string" or facts.distinct <= LISTED or not are_dates_of_several_formats(facts):
        return None
    what = f"dates in several formats, such as {show(facts.least)} and {show(facts.greatest)}"
    return Choice(facts.name, LEFT_OUT, f"{what}: write all of them in one", mendable=True)


def _with_unit(facts: ColumnFacts) -> Choice | None:
    """Numbers such as `3 km`, of which the order of magnitude matters, unless they are few enough for categories."""
    if facts.kind != "string" or facts.distinct <= LISTED or not units_of(facts.texts.to_pylist()):
        return None
    what = f"numbers with a unit, such as {show(facts.greatest)}"
    return Choice(
        facts.name, LEFT_OUT, f"{what}: remove the unit, or compute a number with `column: custom`", mendable=True
    )


def _moment(value: Any, date_format: str | None) -> Any:
    """The value, or the time that a number in one of EPOCHS stands for."""
    if date_format not in EPOCH_UNITS:
        return value
    factor, divisor = EPOCH_UNITS[date_format]
    return dt.datetime.fromtimestamp(value * factor / divisor, dt.UTC).strftime("%Y-%m-%d %H:%M")


def _sorts(date_format: str | None) -> bool:
    """Whether the order of the values is that of the times."""
    return date_format is None or date_format in EPOCHS or date_format.startswith("%Y%m%d")


def sorts(dates: Choice) -> bool:
    """Whether the order of the values of a column of dates is that of the times, and `data.split_by` can use it."""
    return all(settings.get("format") in {None, *EPOCHS} for settings in dates.features.values())


def _id(facts: ColumnFacts) -> Choice | None:
    """A value that names the row, from which nothing can be learned."""
    every = facts.distinct == facts.present >= MANY_ROWS
    if facts.scalar == "string" and facts.mean_words < TEXT_WORDS and facts.present >= MANY_ROWS:
        if facts.distinct > 0.9 * facts.present:
            how = "a different value in each row" if every else f"{facts.distinct:,} values in {facts.present:,} rows"
            share = pc.mean(pc.match_substring_regex(facts.texts, _MARKED_NUMBER)).as_py() or 0.0
            what = "numbers in a form that is read as text" if share >= MOSTLY_NUMBERS else "an id or a name"
            return Choice(facts.name, LEFT_OUT, f"{how}, such as {show(facts.least)}: {what}")
        return None
    if every and facts.is_whole:
        counts_up = facts.greatest - facts.least + 1 == facts.distinct
        if counts_up or matches(ID, facts.name):
            how = f"counts from {show(facts.least)} to {show(facts.greatest)}" if counts_up else "an id"
            return Choice(facts.name, LEFT_OUT, f"a different value in each row: {how}")
    return None


def _string(facts: ColumnFacts) -> Choice | None:
    if facts.scalar != "string":
        return None
    if found := _separated(facts):
        return found
    if facts.mean_words >= TEXT_WORDS and facts.distinct > LISTED:
        what = f"texts of {facts.mean_words:.0f} words on average{missing_share(facts)}"
        settings = {"column": "text", "split": "words", "top_k": 10_000, "min_frequency": 2, "max_tokens": 200}
        return Choice(facts.name, TEXTS, what, {"": settings})
    return _category(facts)


def _separated(facts: ColumnFacts) -> Choice | None:
    """A list in one text."""
    found = find_separator(facts)
    if found is None:
        return None
    separator, items = found
    different = len(items.unique())
    settings = {**_vocabulary_or_hash(different), "multivalued": True, "separator": separator}
    what = f"{different:,} different values, separated by {show(separator)}, such as {show(facts.least)}"
    return Choice(facts.name, LISTS, what + missing_share(facts), {"": settings})


def find_separator(facts: ColumnFacts) -> tuple[str, pa.Array] | None:
    """What divides texts that are lists, such as `Comedy|Drama`, and the items of all distinct texts.

    They are lists if they have few short items that repeat, in many combinations.
    """
    for separator in LIST_SEPARATORS if facts.distinct >= LEAST_LISTS else ():
        if (pc.mean(pc.match_substring(facts.texts, separator)).as_py() or 0.0) < 0.5:
            continue
        items = pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(facts.texts, separator)))
        different = pc.count_distinct(items).as_py()
        if different > 0.5 * len(items) or different > facts.distinct:
            continue
        if pc.mean(pc.count_substring_regex(items, r"\s+")).as_py() > 1 or pc.any(pc.equal(items, "")).as_py():
            continue
        return separator, items
    return None


def _code(facts: ColumnFacts) -> Choice | None:
    """Integers that name something, by the name of the column, or because there are just two."""
    if not facts.is_whole:
        return None
    named = matches(CODE, facts.name) and facts.distinct <= 0.5 * facts.present
    if facts.scalar == "int" and (named or facts.distinct <= 2):
        return _category(facts)
    return None


def _code_of_floats(facts: ColumnFacts) -> Choice | None:
    """Codes of a column that is stored as floats, as those of a column with gaps mostly are."""
    named = matches(CODE_OF_FLOATS, facts.name) or (DENSE_CODE.search(facts.name) and facts.present and facts.is_dense)
    if facts.kind != "float" or not facts.present or not named or (integers := facts.as_integers) is None:
        return None
    found = choose(integers)
    return replace(found, type="int") if found.group == CATEGORIES else None


def _category(facts: ColumnFacts) -> Choice:
    values = [value for value, _ in facts.by_count()]
    if facts.distinct <= LISTED:
        most = percent(next(facts.by_count())[1] / facts.present)
        what = f"the most frequent is {show(values[0])} ({most}){missing_share(facts)}"
        return Choice(facts.name, CATEGORIES, what, {"": {"column": "vocabulary", "values": sorted(values)}})
    what = f"{facts.distinct:,} different values, such as {show(values[0])}"
    return Choice(facts.name, CATEGORIES, what + missing_share(facts), {"": _vocabulary_or_hash(facts.distinct)})


def _vocabulary_or_hash(distinct: int) -> dict[str, Any]:
    if distinct <= LEARNED:
        return {"column": "vocabulary", "top_k": LEARNED}
    return {"column": "hashed", "hash_buckets": min(1 << (distinct - 1).bit_length(), 1 << 16)}


def _number(facts: ColumnFacts) -> Choice:
    mean, _, skewness = facts.moments
    lost = lost_digits(facts.rounding) if facts.rounding.share > COARSE else ""
    least, greatest = map(repr if lost else show, (facts.least, facts.greatest))
    what = f"{least} to {greatest}, mean {mean:.12g}" if lost else f"{least} to {greatest}, mean {rounded(mean, 4)}"
    settings = {"column": "numeric"}
    # a logarithm in float32 would lose the same digits again
    if not lost and facts.least >= 0 and facts.greatest >= SKEWED_FROM and skewness > SKEWNESS:
        what, settings = f"{what}; a long tail, so its logarithm is used", {"column": "numeric", "normalize": "log"}
    return Choice(facts.name, NUMBERS, what + missing_share(facts), {"": settings}, lost_digits=lost)
