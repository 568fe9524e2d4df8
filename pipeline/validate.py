"""Check that the data and the machine fit the config: every column, file and function that it names must exist.

The checks are quick: they read header lines and the first few megabytes of the newest span, and import none of the
user's code. Contradictions within the config are found when it is loaded (configs/rules).

loaded = load_with_places("configs/taxi.yaml")
problems = check_data(loaded)          # each with its line in the config; empty if all is well
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import DataError, Problem
from headrace.common.names import did_you_mean, join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import LoadedConfig
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import (
    MULTIVALUED_HINT,
    CrossedFeature,
    Feature,
)
from headrace.configs.schema.kinds import Kind
from headrace.configs.schema.models import ImageModel
from headrace.configs.schema.optimizer import optimizer_config
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import CsvSource, SourceConfig
from headrace.pipeline.code.modules import why_not_callable, why_not_importable
from headrace.trainer.devices.machine import unmet_requirements

if TYPE_CHECKING:
    from headrace.components.example_gen.sources import Source
    from headrace.components.example_gen.spans.manifest import Span

LocatedMessage = tuple[KeyPath, str]
"""A setting and what is wrong with it."""

MAX_SUGGESTIONS = 100
"""Missing columns for which a similar name is suggested. The search compares each with every column."""

DELIMITERS = (";", "\t", "|", ",")
"""Delimiters in common use."""


def check_data(loaded: LoadedConfig) -> list[Problem]:
    """Check the data, files and functions. Returns problems in the order of the config file."""
    from headrace.components.example_gen.sources import open_source

    config = loaded.config
    messages = [*_files(config), *_functions(config)]
    try:
        spans = _spans(config.data)
        source = open_source(config.data.source, spans[-1].paths)
        columns = source.columns()
        messages += _lists(config, source)
    except DataError as error:
        messages.append((_source(config.data.source), str(error)))
    else:
        messages += [*_names(config, columns), *_first_rows(config, spans, columns)]
    return loaded.problems(messages)


def check_functions(loaded: LoadedConfig) -> list[Problem]:
    """Check that the user's own functions exist."""
    return loaded.problems([*_functions(loaded.config)])


def check_machine(loaded: LoadedConfig) -> list[Problem]:
    """Check quickly that this machine has what the config needs. Raises TrainingError for an invalid TF_CONFIG."""
    return loaded.problems(
        [*unmet_requirements(loaded.config.train), *_unwritable(loaded.config), *_unreachable(loaded.config)]
    )


def _unreachable(config: PipelineConfig) -> Iterator[LocatedMessage]:
    """Dataflow's workers can never open the files of a local run. Those of a cluster may share its folder."""
    if config.beam.runner == "dataflow":
        what = f"Dataflow's workers cannot open files in {config.pipeline.root} on this machine"
        yield ("beam", "runner"), f"{what}; set beam.runner to `direct` or `auto` for a local run"


def _unwritable(config: PipelineConfig) -> Iterator[LocatedMessage]:
    """Folders named in the config that are not writable."""
    named = ((("pipeline", "root"), config.pipeline.root), (("deploy", "push"), config.push_directory))
    for where, folder in named:
        if folder is not None and (why := why_not_writable(Path(folder).absolute())):
            yield where, f"{folder} is not writable: {why}"


def why_not_writable(folder: Path) -> str | None:
    """Explain why a folder, which need not exist yet, cannot be written to; None if it can.

    Tries it with an unnamed temporary file, because permission bits do not tell everything about a file system.
    """
    existing = folder
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return f"{existing}: {error.strerror}"


def _source(source: SourceConfig) -> KeyPath:
    """The setting that names what is read: `path`, if the source has one and it is set."""
    where: KeyPath = ("data", "source")
    return where if getattr(source, "path", None) is None else (*where, "path")


def _spans(data: DataConfig) -> Sequence[Span]:
    """The spans to read, the newest last."""
    from headrace.components.example_gen.spans.find import find_spans

    return find_spans(data.model_copy(update={"fingerprint": "times"})).spans


def _first_rows(config: PipelineConfig, spans: Sequence[Span], columns: Collection[str]) -> Iterator[LocatedMessage]:
    """Values that a run would reject, in the first rows of the newest span: unreadable ones, text where numbers are
    needed, and infinities.
    """
    from headrace.components.example_gen.head import read_head, why_not_numbers
    from headrace.components.example_gen.sources import ReadOptions, open_source

    wanted = config.read_columns
    chosen = None if wanted is None else tuple(name for name in wanted if name in columns)
    reading = ReadOptions(chosen, skip_bad=config.data.on_bad_record == "skip")
    source = open_source(config.data.source, spans[-1].paths, reading)
    numbers: dict[str, KeyPath] = {column: ("features", name) for column, name in config.single_columns.items()}
    if config.label.kind == "regression" and config.preprocessing is None:
        numbers[config.label.key] = ("label", "key")
    try:
        found = read_head(config.data, source, numbers, alone=len(spans) == 1)
    except DataError as error:
        yield _source(config.data.source), str(error)
        return
    if found is None:
        return
    for column, where in numbers.items():
        if found.kinds.get(column, "missing").startswith(("string", "bytes")):
            kind = "" if where[0] == "label" else config.declared_features[str(where[1])].column
            reader = f"`column: {kind}`" if kind else "a regression label"
            why = why_not_numbers(config.data, found, column)
            yield where, f'column "{column}" holds text, and {reader} needs numbers: {why}'
        if column in found.infinite and config.data.on_anomaly == "stop":
            what = f'column "{column}" holds inf, -inf or a number beyond the range of float64, such as 1e999'
            yield where, f"{what}; correct these values, or make them missing"


def _lists(config: PipelineConfig, source: Source) -> Iterator[LocatedMessage]:
    """Lists of more than one value, in the first rows of columns that a feature or the label reads as single values."""
    from headrace.components.example_gen.sources.base import HasListLengths

    if config.data.on_anomaly != "stop" or not isinstance(source, HasListLengths):
        return
    single = config.single_columns
    for name, most in source.max_list_lengths([*dict.fromkeys([*single, config.label.key])]).items():
        if most > 1:
            where: KeyPath = ("features", single[name]) if name in single else ("label", "key")
            way = f"; {MULTIVALUED_HINT}" if name in single else ""
            yield where, f'column "{name}" holds lists of up to {most:,} values, but a single value is needed{way}'


def _names(config: PipelineConfig, columns: Sequence[str]) -> Iterator[LocatedMessage]:
    """Columns that the data does not have. A wrong CSV delimiter is reported once, as the cause of all of them."""
    named = [*_single_names(config), *_feature_names(config.declared_features), *_slice_names(config)]
    named += [
        (("features", "keys", n), key, ())
        for n, key in enumerate((config.preprocessing and config.preprocessing.keys) or ())
    ]
    known = frozenset(columns)
    absent = [(where, name, also) for where, name, also in named if name not in known and name not in also]
    if absent and (other := _other_delimiter(config.data.source, columns)):
        yield (
            ("data", "source", "delimiter"),
            f"the header is a single column, {json.dumps(columns[0], ensure_ascii=False)}; set data.source.delimiter:"
            f" {json.dumps(other)}",
        )
        return
    listing = f"; the columns are: {join_names(columns, 30)}"
    for number, (where, name, also) in enumerate(absent):
        nor = " or a feature" if also else ""
        near = did_you_mean(name, [*columns, *also]) if number < MAX_SUGGESTIONS else ""
        if not near:
            near, listing = listing, ""  # only once
        yield where, f'"{name}" is not a column of the data{nor}{near}'


def _other_delimiter(source: SourceConfig, columns: Sequence[str]) -> str | None:
    """The delimiter that the header seems to use; None if it has more than one column, or no such character."""
    if len(columns) != 1 or not isinstance(source, CsvSource):
        return None
    most = max(DELIMITERS, key=columns[0].count)
    return most if most != source.delimiter and most in columns[0] else None


NamedColumns = Iterator[tuple[KeyPath, str, Sequence[str]]]
"""The setting that names a column, the name, and other things that it may name instead."""


def _single_names(config: PipelineConfig) -> NamedColumns:
    yield ("label", "key"), config.label.key, ()
    if config.data.split_key is not None:
        yield ("data", "split_key"), config.data.split_key, ()
    for name in config.data.types:
        yield ("data", "types", name), name, ()
    if isinstance(config.data.columns, tuple):
        for number, name in enumerate(config.data.columns):
            yield ("data", "columns", number), name, ()


def _feature_names(features: dict[str, Feature]) -> NamedColumns:
    for name, feature in features.items():
        others = [*features] if isinstance(feature, CrossedFeature) else ()
        for path, column in feature.column_settings(name).items():
            yield ("features", name, *path), column, others


def _slice_names(config: PipelineConfig) -> NamedColumns:
    for number, entry in enumerate(config.evaluate.slices):
        where: KeyPath = ("evaluate", "slices", number)
        if isinstance(entry, str):
            yield where, entry, ()
        else:
            yield from (((*where, position), name, ()) for position, name in enumerate(entry))


def _files(config: PipelineConfig) -> Iterator[LocatedMessage]:
    """Files named in the config that do not exist."""
    if (schema := config.data.schema_file) is not None and not Path(schema).is_file():
        yield ("data", "schema"), _no_file(schema)
    for section, kind in _kinds(config):
        for path, file in {} if isinstance(kind, ImageModel) else kind.files().items():
            found = Path(file).exists() if section == ("model",) else Path(file).is_file()
            if "://" not in file and not found:
                yield (*section, *path), _no_file(file)
    yield from _backbone(config)


def _kinds(config: PipelineConfig) -> Iterator[tuple[KeyPath, Kind]]:
    """The sections of which a tag selects the class."""
    yield ("data", "source"), config.data.source
    for name, feature in config.declared_features.items():
        yield ("features", name), feature
    yield ("model",), config.model


def _no_file(file: str) -> str:
    folder = Path(file).parent
    others = [str(folder / other.name) for other in folder.iterdir()] if folder.is_dir() else []
    return f"there is no file {file} (relative to {Path.cwd()}){did_you_mean(file, others)}"


def _backbone(config: PipelineConfig) -> Iterator[LocatedMessage]:
    """A pretrained network that does not exist. The Trainer checks one that is given by a URL."""
    backbone = config.model.backbone if isinstance(config.model, ImageModel) else None
    if backbone is None or "://" in backbone.saved_model or Path(backbone.saved_model, "saved_model.pb").is_file():
        return
    what = f"{backbone.saved_model} is not a SavedModel: it has no file saved_model.pb (relative to {Path.cwd()})"
    yield ("model", "backbone", "saved_model"), what


def _functions(config: PipelineConfig) -> Iterator[LocatedMessage]:
    """The user's own functions that cannot be imported."""
    named: list[tuple[KeyPath, str]] = []
    for section, kind in _kinds(config):
        if kind not in (config.data.source, config.own_training):  # of a source, its reader calls them
            named += [((*section, *path), function) for path, function in kind.functions().items()]
    if config.own_training is not None:
        yield from _called_function(("model", "run_fn"), config.own_training.run_fn, "fn_args")
    if config.preprocessing is not None:
        yield from _called_function(("features", "function"), config.preprocessing.function, "inputs", "custom_config")
    if config.pipeline.extend is not None:
        yield from _called_function(("pipeline", "extend"), config.pipeline.extend, "components", caller="Headrace")
    optimizer = optimizer_config(config.train.optimizer)
    if optimizer.is_own:
        where: KeyPath = ("train", "optimizer")
        named.append((where if isinstance(config.train.optimizer, str) else (*where, "kind"), optimizer.kind))
    for where, path in named:
        if why := why_not_importable(path):
            yield where, why


def _called_function(
    where: KeyPath, path: str, argument: str, *optional: str, caller: str = "TFX"
) -> Iterator[LocatedMessage]:
    """A function that cannot be imported, or that cannot be called with its caller's arguments."""
    if why := why_not_importable(path) or why_not_callable(path, argument, *optional, caller=caller):
        yield where, why
