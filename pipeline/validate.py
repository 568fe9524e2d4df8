"""The data and the machine against the config: does every column, file and function that it names exist?

Quick: reads header lines and the first few megabytes of the newest span, and imports nothing of the user's. What the
config says within itself is checked when it is loaded (configs/rules.py).

loaded = load_with_places("configs/taxi.yaml")
problems = check_data(loaded)          # each with the line in the config; empty: all is well
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.configs.config import PipelineConfig
from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError, Problem
from headrace.configs.features import (
    SEVERAL_VALUES,
    CrossedFeature,
    CustomFeature,
    Feature,
    TextFeature,
    VocabularyFeature,
)
from headrace.configs.loader import Loaded
from headrace.configs.models import ImageModel, OwnModel
from headrace.configs.optimizer import optimizer_config
from headrace.configs.sources import CsvSource, SourceConfig
from headrace.configs.suggest import did_you_mean, listed
from headrace.configs.tree import Where
from headrace.pipeline.dotted_path import why_not_importable
from headrace.trainer.devices.machine import unmet

if TYPE_CHECKING:
    from headrace.components.example_gen.manifest import Span
    from headrace.components.example_gen.sources import Source

Finding = tuple[Where, str]

MEANT = 100
"""Names of absent columns for which the nearest name is looked for, among all columns; more would take their square."""

DELIMITERS = (";", "\t", "|", ",")
"""Those in common use."""


def check_data(loaded: Loaded) -> list[Problem]:
    """What is wrong, each at its place in the config, in reading order."""
    from headrace.components.example_gen.sources import open_source

    config = loaded.config
    findings = [*_files(config), *_functions(config)]
    try:
        spans = _spans(config.data)
        source = open_source(config.data.source, spans[-1].paths)
        columns = source.columns()
        findings += _lists(config, source)
    except DataError as error:
        findings.append((_source(config.data.source), str(error)))
    else:
        findings += [*_names(config, columns), *_first_rows(config, spans, columns)]
    return loaded.problems(findings)


def check_functions(loaded: Loaded) -> list[Problem]:
    """The functions of the user's that are not there, each at its place in the config."""
    return loaded.problems([*_functions(loaded.config)])


def check_machine(loaded: Loaded) -> list[Problem]:
    """What this machine lacks to run as the config says, as far as can be seen at once.

    Raises TrainingError for a TF_CONFIG that makes no sense.
    """
    return loaded.problems([*unmet(loaded.config.train), *_unwritable(loaded.config), *_out_of_reach(loaded.config)])


def _out_of_reach(config: PipelineConfig) -> Iterator[Finding]:
    """Workers that can never open the files of a local run. Those of a cluster may share its folder."""
    if config.beam.runner == "dataflow":
        what = f"Dataflow's workers cannot open what lies in {config.pipeline.root} on this machine; use"
        yield ("beam", "runner"), f"{what} `direct` or `auto` for a local run (`--set beam.runner=direct`)"


def _unwritable(config: PipelineConfig) -> Iterator[Finding]:
    """Folders that the config names and that nothing can be written to."""
    named = ((("pipeline", "root"), config.pipeline.root), (("deploy", "push"), config.push_directory))
    for where, folder in named:
        if folder is not None and (why := why_not_writable(Path(folder).absolute())):
            yield where, f"nothing can be written to {folder}: {why}"


def why_not_writable(folder: Path) -> str | None:
    """What keeps a folder, which need not be there yet, from being written to; None if nothing does.

    Tried out, by a file that never gets a name: permissions do not tell all of what a file system allows.
    """
    there = folder
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        return f"{there}: {error.strerror}"


def _source(source: SourceConfig) -> Where:
    """Where it is said what is read: `path`, of a source that has one and has it set."""
    where: Where = ("data", "source")
    return where if getattr(source, "path", None) is None else (*where, "path")


def _spans(data: DataConfig) -> Sequence[Span]:
    """What there is to read, the newest last."""
    from headrace.components.example_gen.find import find_spans

    return find_spans(data.model_copy(update={"fingerprint": "times"})).spans


def _first_rows(config: PipelineConfig, spans: Sequence[Span], columns: Collection[str]) -> Iterator[Finding]:
    """What a run would refuse in the first rows of the newest span: values that cannot be read, and texts where numbers
    are needed.
    """
    from headrace.components.example_gen.head import read_head, why_not_numbers
    from headrace.components.example_gen.sources import ReadOptions, open_source

    asked = config.read_columns
    chosen = None if asked is None else tuple(name for name in asked if name in columns)
    reading = ReadOptions(chosen, skip_bad=config.data.on_bad_record == "skip")
    source = open_source(config.data.source, spans[-1].paths, reading)
    numbers: dict[str, Where] = {column: ("features", name) for column, name in config.single_columns.items()}
    if config.label.kind == "regression":
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
            reader = "a regression label" if where[0] == "label" else "a numeric or bucketized feature"
            why = why_not_numbers(config.data, found, column)
            yield where, f'column "{column}" holds text, and {reader} needs numbers: {why}'
        if column in found.infinite and config.data.on_anomaly == "stop":
            what = (
                f'column "{column}" holds inf or -inf, or a number beyond float64, such as 1e999, which is read as such'
            )
            yield where, f"{what}; mend them, or make them missing"


def _lists(config: PipelineConfig, source: Source) -> Iterator[Finding]:
    """Lists of several values, in the first rows, where a feature or the label takes one."""
    from headrace.components.example_gen.sources.base import HasListLengths

    if config.data.on_anomaly != "stop" or not isinstance(source, HasListLengths):
        return
    single = config.single_columns
    for name, most in source.max_list_lengths([*dict.fromkeys([*single, config.label.key])]).items():
        if most > 1:
            where: Where = ("features", single[name]) if name in single else ("label", "key")
            way = f"; {SEVERAL_VALUES}" if name in single else ""
            yield where, f'column "{name}" holds lists of up to {most:,} values, of which one is taken{way}'


def _names(config: PipelineConfig, columns: Sequence[str]) -> Iterator[Finding]:
    """Names of columns that the data does not have; of all of them one cause, if they stand in one column's name."""
    named = [*_single_names(config), *_feature_names(config.features), *_slice_names(config)]
    known = frozenset(columns)
    absent = [(where, name, also) for where, name, also in named if name not in known and name not in also]
    if absent and (other := _other_delimiter(config.data.source, columns)):
        yield (
            ("data", "source", "delimiter"),
            f"the header is a single column, {json.dumps(columns[0], ensure_ascii=False)}; set data.source.delimiter:"
            f" {json.dumps(other)}",
        )
        return
    listing = f"; the columns are: {listed(columns, 30)}"
    for number, (where, name, also) in enumerate(absent):
        nor = " nor a feature" if also else ""
        near = did_you_mean(name, [*columns, *also]) if number < MEANT else ""
        if not near:
            near, listing = listing, ""  # once is enough
        yield where, f'"{name}" is no column of the data{nor}{near}'


def _other_delimiter(source: SourceConfig, columns: Sequence[str]) -> str | None:
    """The delimiter that the header seems to have instead; None if it has several columns or no such character."""
    if len(columns) != 1 or not isinstance(source, CsvSource):
        return None
    most = max(DELIMITERS, key=columns[0].count)
    return most if most != source.delimiter and most in columns[0] else None


Named = Iterator[tuple[Where, str, Sequence[str]]]
"""Where a column is named, its name, and what else the name may be."""


def _single_names(config: PipelineConfig) -> Named:
    yield ("label", "key"), config.label.key, ()
    if config.data.split_key is not None:
        yield ("data", "split_key"), config.data.split_key, ()
    for name in config.data.types:
        yield ("data", "types", name), name, ()
    if isinstance(config.data.columns, tuple):
        for number, name in enumerate(config.data.columns):
            yield ("data", "columns", number), name, ()


def _feature_names(features: dict[str, Feature]) -> Named:
    for name, feature in features.items():
        if isinstance(feature, CrossedFeature | CustomFeature):
            others = [*features] if isinstance(feature, CrossedFeature) else ()
            for number, key in enumerate(feature.keys):
                yield ("features", name, "keys", number), key, others
        elif feature.key is not None:
            yield ("features", name, "key"), feature.key, ()
        else:
            yield ("features", name), name, ()


def _slice_names(config: PipelineConfig) -> Named:
    for number, entry in enumerate(config.evaluate.slices):
        where: Where = ("evaluate", "slices", number)
        if isinstance(entry, str):
            yield where, entry, ()
        else:
            yield from (((*where, place), name, ()) for place, name in enumerate(entry))


def _files(config: PipelineConfig) -> Iterator[Finding]:
    """Files that the config names and that are not there."""
    named: list[tuple[Where, str | None]] = [(("data", "schema"), config.data.schema_file)]
    for name, feature in config.features.items():
        if isinstance(feature, VocabularyFeature | TextFeature):
            named.append((("features", name, "file"), feature.file))
    yield from _backbone(config)
    for where, file in named:
        if file is not None and not Path(file).is_file():
            folder = Path(file).parent
            there = [str(folder / other.name) for other in folder.iterdir()] if folder.is_dir() else []
            yield where, f"no file {file} (looked for from {Path.cwd()}){did_you_mean(file, there)}"


def _backbone(config: PipelineConfig) -> Iterator[Finding]:
    """A trained network that is not there; one behind an address is looked for by the Trainer."""
    backbone = config.model.backbone if isinstance(config.model, ImageModel) else None
    if backbone is None or "://" in backbone.saved_model or Path(backbone.saved_model, "saved_model.pb").is_file():
        return
    what = f"no SavedModel in {backbone.saved_model}: there is no file saved_model.pb (looked for from {Path.cwd()})"
    yield ("model", "backbone", "saved_model"), what


def _functions(config: PipelineConfig) -> Iterator[Finding]:
    """Functions of the user's that are not there."""
    named: list[tuple[Where, str]] = []
    if isinstance(config.model, OwnModel):
        named.append((("model", "kind"), config.model.kind))
    optimizer = optimizer_config(config.train.optimizer)
    if optimizer.is_own:
        where: Where = ("train", "optimizer")
        named.append((where if isinstance(config.train.optimizer, str) else (*where, "kind"), optimizer.kind))
    for name, feature in config.features.items():
        if isinstance(feature, CustomFeature):
            named.append((("features", name, "function"), feature.function))
    for where, path in named:
        if why := why_not_importable(path):
            yield where, why
