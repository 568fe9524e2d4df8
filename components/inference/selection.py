"""What `auto` and patterns under `features:`, and `label: {kind: auto}`, stand for in the present data.

A config that leaves that to the data, and says nothing about the model, gets the kind of model that suits the data too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.common.errors import ContradictionError, DataError
from headrace.common.names import did_you_mean_or_list
from headrace.components.examples.skips import lenient, with_others
from headrace.components.inference.columns import LEFT_OUT, Choice
from headrace.components.inference.facts import facts_of
from headrace.components.inference.labels import choose_label, missing_setting
from headrace.components.inference.models import choose_model
from headrace.components.inference.sample import Sample, read_readable
from headrace.components.inference.table import choose_columns, features_of, free_name
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.models import RunFnModel
from headrace.configs.schema.selection import Resolved, Selection

Features = dict[str, dict[str, Any]]


def resolve(config: PipelineConfig, selections: Sequence[Selection], auto_labels: Collection[str]) -> Resolved:
    """What the selections and the labels with `kind: auto` stand for.

    config: with one feature in place of each entry; auto_labels: the tasks whose kind is asked for, whose settings are
    then under `tasks`, or "" for the only label. Raises DataError for data that cannot be read, and for a label that
    does not exist or cannot be predicted.
    """
    return _resolve(config, selections, auto_labels, *_sample(config, selections))


def resolve_readable(
    config: PipelineConfig, selections: Sequence[Selection], auto_labels: Collection[str], error: DataError
) -> tuple[Resolved, str]:
    """The same without the records that cannot be read, of which this is the first, and what is wrong with them.

    Raises the error if these are not few, ContradictionError about a column of the others, and DataError as `resolve`
    does.
    """
    what = ""
    for data in lenient(config.data):
        try:
            sample, unreadable = _sample(config.model_copy(update={"data": data}), selections)
        except ContradictionError as other:
            if other.readable_as is None or other.column in config.label.columns:
                break
            raise
        except DataError:
            break
        what = what or with_others(error, sample.skipped, sample.rows)
        if sample.skipped.are_few(sample.rows):
            return _resolve(config, selections, auto_labels, sample, unreadable), what
    raise DataError(what) if what else error


def _resolve(
    config: PipelineConfig,
    selections: Sequence[Selection],
    auto_labels: Collection[str],
    sample: Sample,
    unreadable: Mapping[str, str],
) -> Resolved:
    for label in config.label.columns:
        if label not in sample.kinds:
            known = did_you_mean_or_list(label, sample.names, "the columns are")
            raise DataError(f"is not a column of the data{known}", column=label)
    found, types = {}, dict[str, str]()
    for task in auto_labels:
        column = config.label.parts[task].key
        found[task], type_ = _label(sample, column, task)
        types |= {} if type_ is None else {column: type_}
    settings = found.get("") or ({"tasks": found} if found else None)
    owners = _owners(_free_columns(config, selections, sample), selections, sample)
    inferred = {name for name, owner in owners.items() if owner.settings is None}
    named = _read(config, _named(config, selections))
    fixed = {*inferred} if isinstance(config.model, RunFnModel) else named
    found_choices = choose_columns(sample, inferred, *config.label.columns, fixed=fixed)
    choices = {choice.column: choice for choice in found_choices}
    types |= {choice.column: choice.type for choice in found_choices if choice.type is not None}
    types |= dict.fromkeys(_float64_columns(config, named, found_choices), "float64")
    features = _features(config, selections, owners, choices)
    declared = [feature.model_dump() for feature in config.declared_features.values()]
    chosen_features = [each for entry in features.values() for each in entry.values()]
    kind = (settings or {}).get("kind", config.label.kind)
    model = choose_model(sample, kind, [*chosen_features, *declared])
    left_out = {choice.column: choice.comment for choice in found_choices if choice.group == LEFT_OUT}
    read = "used" if unreadable and "columns" not in config.data.model_fields_set else None
    return Resolved(features, settings, model.settings, types, {**left_out, **unreadable}, read)


def _sample(config: PipelineConfig, selections: Sequence[Selection]) -> tuple[Sample, dict[str, str]]:
    """The rows, and why columns that no feature can hold are left out. Raises DataError if one is asked for by name."""
    data, written = config.data, [one for one in selections if one.settings is not None]
    known = _used(config, selections) | _read(config, _named(config, selections))
    asked = "columns" in data.model_fields_set and data.columns != "used"

    def is_needed(column: str) -> bool:
        return asked or column in known or any(one.takes(column, "") for one in written)

    return read_readable(data, is_needed)


def _label(sample: Sample, column: str, task: str) -> tuple[dict[str, Any], str | None]:
    """The settings of a label, and the type of its column if it has to be declared. task: "" if it is the only one, and
    rows without it can be left out.
    """
    facts = facts_of(column, sample.kinds[column], sample.column(column))
    chosen = choose_label(facts, partial(sample.spelled, column))
    missing = {"missing": missing_setting(chosen, in_task=bool(task))} if facts.missing else {}
    return {**chosen.settings, **missing}, chosen.type


def _free_columns(config: PipelineConfig, selections: Sequence[Selection], sample: Sample) -> list[str]:
    """The columns that no feature is named after, and that have no other use."""
    others = _used(config, selections)
    return [name for name in sample.names if name not in others]


def _used(config: PipelineConfig, selections: Sequence[Selection]) -> set[str | None]:
    """The names of written features, and the columns that have a use of their own."""
    label, data = config.label, config.data
    return {*_named(config, selections), *label.columns, label.weight, *data.split_keys, data.split_column}


def _named(config: PipelineConfig, selections: Sequence[Selection]) -> set[str]:
    """The names of the features that are written."""
    return {*config.declared_features} - {selection.name for selection in selections}


def _read(config: PipelineConfig, named: Collection[str]) -> set[str]:
    """The columns that these features read."""
    features = config.declared_features
    return {column for name in named for column in features[name].data_columns(name, features)}


def _float64_columns(config: PipelineConfig, read: Collection[str], choices: Iterable[Choice]) -> list[str]:
    """The columns that need digits which float32 would lose, as `headrace init` declares them.

    None where something besides the inferred features reads the examples as they have been: a curated schema, or
    functions in TFX's form; nor a column whose type is declared, or that one of the named
    features, which are written, reads too.
    """
    data = config.data
    if data.source.kind == "tfrecord" or data.schema_file is not None or isinstance(config.model, RunFnModel):
        return []
    return [one.column for one in choices if one.lost_digits and one.column not in {*read, *data.types}]


def _features(
    config: PipelineConfig,
    selections: Sequence[Selection],
    owners: Mapping[str, Selection],
    choices: Mapping[str, Choice],
) -> dict[str, Features]:
    """Each column belongs to the most precise entry that takes it, and to none if a feature has its name."""
    found: dict[str, Features] = {selection.name: {} for selection in selections}
    taken = {*_named(config, selections), *config.label.columns}
    for column, owner in owners.items():
        if owner.settings is None:
            features = dict(features_of(_with_all_digits(choices[column], config.data.float64_columns), taken))
        else:
            name = free_name(column, taken)
            features = {name: {**owner.settings, **({} if name == column else {"key": column})}}
        found[owner.name] |= features
        taken |= features.keys()
    return found


def _with_all_digits(choice: Choice, float64: Collection[str]) -> Choice:
    """The choice without a logarithm if the column is declared float64, whose further digits it would lose."""
    if choice.column not in float64:
        return choice
    features = {
        suffix: {name: value for name, value in settings.items() if (name, value) != ("normalize", "log")}
        for suffix, settings in choice.features.items()
    }
    return replace(choice, features=features)


def _owners(columns: Sequence[str], selections: Sequence[Selection], sample: Sample) -> Mapping[str, Selection]:
    owners = {}
    for column in columns:
        takers = [selection for selection in selections if selection.takes(column, sample.kinds[column])]
        if takers:
            owners[column] = max(reversed(takers), key=lambda selection: selection.precision)
    return owners
