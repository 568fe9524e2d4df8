"""A config as a person would write it, with a comment on every decision.

text = document(Draft("trips", "trips.yaml", source, ("tipped",), sample, infer(sample, "tipped")), command)

The same data gives the same text.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from headrace.common.names import one_line
from headrace.components.inference import columns
from headrace.components.inference.column_names import may_name_groups, names_groups
from headrace.components.inference.columns import Choice
from headrace.components.inference.facts import facts_of
from headrace.components.inference.labels import LabelChoice, missing_setting
from headrace.components.inference.models import choose_model
from headrace.components.inference.sample import Sample
from headrace.components.inference.table import InferredTable, features_of, free_name
from headrace.configs.loading.editing import to_flow
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.metrics import task_metric

HEADINGS = {
    columns.NUMBERS: "Numbers, scaled to mean 0 and standard deviation 1 unless `normalize` says otherwise.",
    columns.VECTORS: "Lists of numbers, each position scaled by itself.",
    columns.CATEGORIES: "Categories: a listed vocabulary, a learned one (`top_k`), or hash buckets for many values.",
    columns.BOOLEANS: "False or true.",
    columns.DATES: "Dates and times, by their parts. `part: age` would count the days to a reference.",
    columns.TEXTS: "Texts, as the words that occur in them.",
    columns.LISTS: "Lists of values, all of which count.",
    columns.IMAGES: "Images, decoded and scaled to this size within the model.",
}
"""The groups of features in the order of the file, and what they are."""
WIDTH = 100
"""Characters of a line, as far as it can be broken."""
FEW_ROWS = 1000
"""Rows below which the eval and test splits get a larger part."""
WINDOW = 30
"""How many of the newest spans a model learns from."""
ENOUGH_OF_CLASS = 10
"""Rows of the rarest class, on average in the smallest split, below which chance would decide how many there are."""
MOST_REASONS = 3
"""Columns whose loss of digits is described."""
BASELINE_BOUND = "not_worse_than_baseline_by: 0.01"
"""What also bounds a threshold by the model in service; of all metrics that get one, more is better."""
MAX_BAD_FRACTION: float = DataConfig.model_fields["max_bad_fraction"].default
MARGIN = 2
"""The times by which the records that cannot be read may become more before a run stops."""
SLICED = (2, 10)
"""How many values a column has by which the evaluation is sliced."""


@dataclass(frozen=True)
class Draft:
    """What a config is written from.

    source: the settings of `data.source`; command: how to write it again; unlabelled: the paths of splits that are left
    out because they lack the label; unreadable: the columns that cannot be read, with the reason; unnamed: the folders
    of a DatasetDict that are left out because their names are those of no split; skip_bad: whether records that cannot
    be read are skipped.
    """

    name: str
    file: str
    source: dict[str, Any]
    labels: tuple[str, ...]
    sample: Sample
    table: InferredTable
    command: str
    unlabelled: Mapping[str, Any] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    unnamed: Sequence[str] = ()
    skip_bad: bool = False

    @property
    def left_out(self) -> dict[str, str]:
        """The other columns, with the reason."""
        chosen = (choice for choice in self.table.choices if choice.group == columns.LEFT_OUT)
        return {**{choice.column: choice.comment for choice in chosen}, **self.unreadable}

    @property
    def used(self) -> int:
        """Columns that became features."""
        return sum(choice.group != columns.LEFT_OUT for choice in self.table.choices)

    @property
    def features(self) -> int:
        """These features; a column of dates may become several."""
        return sum(len(choice.features) for choice in self.table.choices if choice.group != columns.LEFT_OUT)


def document(draft: Draft) -> str:
    """The text of the config."""
    sections = (_head(draft), _data(draft), _label(draft), _features(draft), _training(draft), _evaluation(draft))
    return "\n".join("\n".join(section) + "\n" for section in sections)


def _head(draft: Draft) -> Iterator[str]:
    rows, count = draft.sample.rows, len(draft.sample.names) + len(draft.unreadable)
    seen = f"all {rows:,} rows" if draft.sample.whole else f"the first {rows:,} rows"
    if spans := draft.sample.spans:
        seen += f" of {'span' if len(spans) == 1 else f'{len(spans)} spans,'} {_range(spans)}, in {count:,} columns"
    else:
        seen += f" of {count:,} columns"
    yield f"# Written by `{one_line(draft.command)}`"
    yield from _comment(
        f"from {seen}. Every line is a suggestion: change what you know better. Settings that are"
        " not here have defaults, which docs/config.md describes. The next command:"
    )
    yield f"#     headrace run {one_line(draft.file)}"
    yield f"pipeline: {to_flow({'name': draft.name})}"


def _range(spans: Sequence[str]) -> str:
    return spans[0] if len(spans) == 1 else f"{spans[0]} to {spans[-1]}"


def _data(draft: Draft) -> Iterator[str]:
    yield "data:"
    missing = "null_values are missing ones, in all columns" if "null_values" in draft.source else ""
    yield from _entry("source", draft.source, missing)
    if draft.sample.spans:
        yield from _entry("window", WINDOW, "train on at most this many of the newest spans; each is read once")
    yield from _types(draft)
    if draft.skip_bad:
        yield from _bad_records(draft.sample)
    if draft.left_out:
        yield from _entry("columns", "used", "only those that are named below")
    for split, path in draft.unlabelled.items():
        yield from _comment(f"Left out, without the label, {split}: {to_flow(path)}", "  ")
    for path in draft.unnamed:
        yield from _comment(f"Left out, not named after a split: {to_flow(path)}", "  ")
    few = draft.sample.whole and draft.sample.rows < FEW_ROWS
    splits = {"train": 6, "eval": 2, "test": 2} if few else {"train": 8, "eval": 1, "test": 1}
    paths, why = draft.source.get("path"), "parts of the rows, by a hash of their values"
    if isinstance(paths, dict):
        splits = {split: splits[split] for split in splits if split in {*paths, "eval"}}
        why = "eval is cut from train, by a hash of the rows"
    if not isinstance(paths, dict) or "eval" not in paths:
        yield from _entry("splits", splits, why + "; few rows, so eval and test get more" * few)
        smallest = min(splits.values()) / sum(splits.values())
        rare = len(draft.labels) == 1 and draft.table.labels[draft.labels[0]].rarest * smallest < ENOUGH_OF_CLASS
        yield from _groups(draft) or _order(draft) or (_stratified() if rare and not draft.sample.spans else ())


def _bad_records(sample: Sample) -> Iterator[str]:
    """The setting that skips records that cannot be read, and a limit that these do not reach."""
    bad, every = sample.skipped.count, sample.rows + sample.skipped.count
    found = f"{bad:,} of {every:,} records cannot be read" if bad else f"all {every:,} records can be read"
    yield from _entry("on_bad_record", "skip", found)
    if bad > MAX_BAD_FRACTION * every:
        digits = 1 - math.ceil(math.log10(MARGIN * bad / every))
        most = min(math.ceil(MARGIN * bad / every * 10**digits) / 10**digits, 1.0)
        comment = f"a run stops if more cannot be read; of these, {bad / every:.1%} cannot"
        yield from _entry("max_bad_fraction", most, comment)


def _types(draft: Draft) -> Iterator[str]:
    """The types of columns for which that of their values will not do."""
    types, why = dict[str, str](), list[str]()
    for label, found in draft.table.labels.items():
        if found.type is not None:
            types[label] = found.type
            why.append("the label's classes are not fractions")
    codes = {choice.column: choice.type for choice in draft.table.choices if choice.type is not None}
    if codes:
        types |= codes
        why += [f"{name} holds codes" for name in codes]
    coarse = {choice.column: choice.lost_digits for choice in draft.table.choices if choice.lost_digits}
    float64 = coarse if draft.source["kind"] != "tfrecord" else {}
    for column, lost in float64.items():
        types[column] = "float64"
        why.append(f"as float32, {column} {lost}")
    if types:
        yield from _entry("types", types, "; ".join(why[:MOST_REASONS]))


def _stratified() -> Iterator[str]:
    yield from _entry("stratify", True, "each split gets its share of each class")


def _order(draft: Draft) -> list[str]:
    """The first column of times in whose order the rows are."""
    sample = draft.sample
    for choice in draft.table.choices:
        if sample.spans or choice.group != columns.DATES or not columns.sorts(choice):
            continue
        times = sample.column(choice.column)
        if not times.null_count and pc.all(pc.less_equal(times[:-1], times[1:])).as_py():
            what = f"The rows are in the order of `{choice.column}`. To judge the model on the newest ones"
            return [
                *_comment(f"{what}, as it will be used:", "  "),
                f"  # {to_flow({'split_by': choice.column})[1:-1]}",
            ]
    return []


def _groups(draft: Draft) -> list[str]:
    """The first column whose values repeat as those of a customer do."""
    sample = draft.sample
    for name in filter(may_name_groups, sample.names):
        if name not in draft.labels and names_groups(facts_of(name, sample.kinds[name], sample.column(name))):
            what = (
                f"To judge the model on values of `{name}` that it did not learn from, keep the rows of each together"
            )
            comment = _comment(f"{what}, and leave it out of the features:", "  ")
            return [*comment, f"  # {to_flow({'split_key': name})[1:-1]}"]
    return []


def _label(draft: Draft) -> Iterator[str]:
    if len(draft.labels) > 1:
        yield from _tasks(draft)
        return
    (name,) = draft.labels
    label, missing = draft.table.labels[name], draft.table.missing[name]
    setting, comment = _missing(label, missing, in_task=False)
    yield from _entry("label", {"key": name, **label.settings, **setting}, label.comment + comment, "")


def _tasks(draft: Draft) -> Iterator[str]:
    yield "label:"
    yield from _entry("kind", "multitask", "one model predicts all of these; see docs/multitask.md")
    yield "  tasks:"
    for task, column in task_names(draft.labels).items():
        label, missing = draft.table.labels[column], draft.table.missing[column]
        setting, comment = _missing(label, missing, in_task=True)
        key = {} if task == column else {"key": column}
        yield from _entry(task, {**key, **label.settings, **setting}, label.comment + comment, "    ")


def _missing(label: LabelChoice, missing: int, *, in_task: bool) -> tuple[dict[str, str], str]:
    """The setting for rows without the label, and what to say of them; both empty if there are none."""
    if not missing:
        return {}, ""
    setting = missing_setting(label, in_task=in_task)
    other = "use `mask`" if in_task else "`drop` leaves them out"
    what = {
        "none": f"have no class; if theirs is not known, {other}",
        "mask": "have no label, and count for the other tasks only",
        "drop": "have no label, and are left out",
    }
    return {"missing": setting}, f"; {missing:,} rows {what[setting]}"


def task_names(columns: Sequence[str]) -> dict[str, str]:
    """A name for the task of each label's column: it begins with a letter, and with none of the names of predicted
    columns of another task.
    """
    names: dict[str, str] = {}
    for column in columns:
        predicted = any(column.startswith(f"{other}_probability") for other in columns)
        wanted = column if column[0].isalpha() and not predicted else f"label_{column}"
        names[free_name(wanted, names)] = column
    return names


def _features(draft: Draft) -> Iterator[str]:
    yield "features:  # see docs/init.md"
    taken = {*draft.labels}
    for group, heading in HEADINGS.items():
        chosen = [choice for choice in draft.table.choices if choice.group == group]
        if chosen:
            yield ""
            yield from _comment(heading, "  ")
        for choice in chosen:
            for number, (name, settings) in enumerate(features_of(choice, taken)):
                taken.add(name)
                comment = "; ".join(filter(None, (choice.comment, choice.suspicion)))
                yield from _entry(name, settings, "" if number else comment)
    if draft.left_out:
        yield from ("", "  # Left out:")
    for name, reason in draft.left_out.items():
        yield from _comment(f"{name}: {reason}", "  ", "  ")


def _training(draft: Draft) -> Iterator[str]:
    features = [settings for choice in draft.table.choices for settings in choice.features.values()]
    kinds = [label.settings["kind"] for label in draft.table.labels.values()]
    model = choose_model(draft.sample, kinds[0] if len(kinds) == 1 else "multitask", features)
    yield from _entry("model", model.settings, model.comment, "")
    yield from _comment("auto: by the number of rows. Training stops when the loss of the eval split no longer falls.")
    yield from _entry("train", {"epochs": "auto", "batch_size": "auto"}, indent="")


def _evaluation(draft: Draft) -> Iterator[str]:
    tasks = {"": draft.labels[0]} if len(draft.labels) == 1 else task_names(draft.labels)
    labels = {task: draft.table.labels[column] for task, column in tasks.items()}
    thresholds = {task_metric(task, label.threshold[0]): {**label.threshold[1]} for task, label in labels.items()}
    yield "evaluate:"
    yield from _entry("metrics", [task_metric(task, name) for task, label in labels.items() for name in label.metrics])
    if slices := [choice.column for choice in draft.table.choices if _is_sliced(choice)][:1]:
        yield from _entry("slices", slices, "the same metrics for each of its values")
    guessed = (f"{task}: {label.baseline}." if task else f"{label.baseline}." for task, label in labels.items())
    yield from _comment(f"A model that does worse is not pushed. {' '.join(guessed)}", "  ")
    yield from _comment(f"Add `{BASELINE_BOUND}` to refuse one that is worse than the model in service too.", "  ")
    if len(thresholds) == 1:
        yield from _entry("thresholds", thresholds)
        return
    yield "  thresholds:"
    for metric, bounds in thresholds.items():
        yield from _entry(metric, bounds, indent="    ")


def _is_sliced(choice: Choice) -> bool:
    values = choice.features.get("", {}).get("values", ())
    return choice.group == columns.BOOLEANS or SLICED[0] <= len(values) <= SLICED[1]


def _entry(name: str, value: object, comment: str = "", indent: str = "  ") -> Iterator[str]:
    """A setting with its comment behind it, or above it if there is no room."""
    line = f"{indent}{to_flow(name)}: {to_flow(value)}"
    with_comment = f"{line}  # {one_line(comment)}" if comment else line
    if len(with_comment) <= WIDTH:
        yield with_comment
        return
    yield from _comment(comment, indent)
    key = f"{indent}{to_flow(name)}: "
    first, *more = to_flow(value, max(WIDTH - len(key), WIDTH // 2)).splitlines()
    yield key + first
    yield from (f"{indent}    {each.strip()}" for each in more)


def _comment(text: str, indent: str = "", hanging: str = "") -> Iterator[str]:
    """Lines of a comment. hanging: by which the lines after the first are indented further."""
    wrapped = textwrap.wrap(one_line(text), WIDTH - len(indent) - len(hanging) - 2, break_on_hyphens=False)
    yield from (f"{indent}# {hanging * (number > 0)}{line}" for number, line in enumerate(wrapped))
