"""Check that the data and the machine fit the config: every column, file and function that it names must exist.

The checks are quick: they read header lines and the first ten thousand rows of the newest span, and import none of the
user's code. Contradictions within the config are found when it is loaded (configs/rules).

loaded = load_with_locations("configs/taxi.yaml")
problems = check_data(loaded)          # each with its line in the config; empty if all is well
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import DataError, HeaderError, Problem, UnreachableError
from headrace.common.names import did_you_mean
from headrace.common.storage.files import is_folder, is_remote
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import ColumnMistake, merge_columns
from headrace.configs.loading.loader import LoadedConfig
from headrace.configs.loading.valid_part import Paths, is_uncertain, touches
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.kinds import Kind
from headrace.configs.schema.optimizer import optimizer_config
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import CsvSource
from headrace.configs.schema.sources.base import header_mistake, read_otherwise, source_setting
from headrace.pipeline.code.modules import why_not_callable, why_not_importable
from headrace.pipeline.preview.columns import LISTED
from headrace.pipeline.preview.names import EarlierColumns, absent_names, name_violations
from headrace.pipeline.preview.requests import request_violations
from headrace.pipeline.preview.rows import RowsCheck, check_rows
from headrace.pipeline.preview.uncertain import certain_part, judged_config
from headrace.trainer.devices.machine import unmet_requirements

if TYPE_CHECKING:
    from headrace.components.spans.manifest import Span


PATIENCE = 5.0
"""Seconds that databases have to answer all questions of a check."""


def check_data(loaded: LoadedConfig) -> list[Problem]:
    """Check the data, files and functions. Returns problems in the order of the config file."""
    config = loaded.config
    return loaded.problems([*file_violations(config), *function_violations(config), *check_columns(config).rejected])


def check_columns(
    config: PipelineConfig, inferred_labels: Collection[str] = (), uncertain: Paths = frozenset()
) -> RowsCheck:
    """What does not fit the data: columns that it does not have, and values in its first rows.

    A database that cannot be reached, or does not answer soon, is noted.

    inferred_labels: the tasks whose label has `kind: auto`, "" for the only label; uncertain: settings with mistakes,
    of whose consequences nothing is said.
    """
    from headrace.components.sources.base import answered_within

    with answered_within(PATIENCE):
        return _check_columns(config, inferred_labels, uncertain)


def _check_columns(config: PipelineConfig, inferred_labels: Collection[str], uncertain: Paths) -> RowsCheck:
    try:
        spans = _spans(config.data)
        found = _read_header(config, spans[-1])
    except UnreachableError as error:
        return RowsCheck(notes=[(source_setting(config.data.source), f"the data was not looked at: {error}")])
    except DataError as error:
        return RowsCheck([(source_setting(config.data.source), str(error))])
    config, columns = found.config, found.columns
    absent = [each for each in absent_names(config, columns) if not is_uncertain(uncertain, each[0])]
    misread = found.is_of_guessed_encoding and not all(name.isascii() for _, name, _ in absent)
    if found.rejected and (misread or not columns):
        return RowsCheck([*found.rejected])
    check = _check_rows(config, spans, columns, inferred_labels, uncertain)
    if check.rejected and not columns:  # nothing could be read, so that no name would be found
        return check
    requests, odd = ([], []) if touches(uncertain, ("gates", "skew")) else request_violations(config, spans)
    earlier = _earlier_columns(config) if absent else None
    rejected = [*found.rejected, *name_violations(absent, columns, earlier), *check.rejected, *requests]
    return replace(check, rejected=rejected, notes=[*check.notes, *odd])


@dataclass(frozen=True)
class _Header:
    """The columns, none if they cannot be read, and what is wrong with the header line.

    config: the config with the settings by which it was read all the same, as the mistakes suggest.
    """

    config: PipelineConfig
    columns: Sequence[str]
    rejected: Sequence[Violation]
    is_of_guessed_encoding: bool


def _read_header(config: PipelineConfig, span: Span) -> _Header:
    """The columns of a span. Raises DataError for what no setting of the source would change."""
    rejected, is_guess = list[Violation](), False
    while True:
        source, columns = config.data.source, list[str]()
        try:
            columns = _columns(config, span)
            if isinstance(source, CsvSource):
                source.check_delimiter(columns)
        except HeaderError as error:
            rejected.append(header_mistake(source, error))
            other = read_otherwise(source, error)
            is_guess |= error.setting is not None and error.setting[0] == "encoding"
        except DataError:
            if not is_guess:
                raise
            return _Header(config, [], rejected, is_guess)  # files of several encodings, of which the guess is one
        else:
            other = None
        if other is None:
            return _Header(config, columns, rejected, is_guess)
        config = config.model_copy(update={"data": config.data.model_copy(update={"source": other})})


def _check_rows(
    config: PipelineConfig,
    spans: Sequence[Span],
    columns: Sequence[str],
    inferred_labels: Collection[str],
    uncertain: Paths,
) -> RowsCheck:
    """Check the first rows; and again without columns that are not of their declared type, or of one that no feature
    can hold, or contradict each other, because of the others.
    """
    mistyped, unreadable = dict[str, ColumnMistake](), set[str]()
    while True:
        uncertain = frozenset({*uncertain, *(("data", "types", name) for name in mistyped)})
        judged = judged_config(config, uncertain)
        if judged is None:
            return RowsCheck([*_mistyped(config, mistyped)])
        check = check_rows(judged, spans, columns, inferred_labels, without=unreadable)
        more = (check.mistyped.keys() - mistyped.keys()) | (check.unreadable - unreadable)
        unreadable |= check.unreadable
        mistyped = {**check.mistyped, **mistyped}
        if not more or len(mistyped) > LISTED:
            check = certain_part(config, check, uncertain)
            if not more:
                return replace(check, rejected=[*_mistyped(config, mistyped), *check.rejected])
            return replace(check, rejected=[*_mistyped(config, mistyped, "; there may be others")])


def _mistyped(config: PipelineConfig, mistakes: Mapping[str, ColumnMistake], further: str = "") -> Iterator[Violation]:
    for what in merge_columns(mistakes):
        yield source_setting(config.data.source), f"{what}{further}"


def check_machine(loaded: LoadedConfig) -> list[Problem]:
    """Check quickly that this machine has what the config needs. Raises TrainingError for an invalid TF_CONFIG."""
    return loaded.problems(
        [
            *unmet_requirements(loaded.config.train),
            *_unwritable(loaded.config),
            *_unreachable(loaded.config),
            *_bucketless(loaded.config.push_directory),
        ]
    )


def _unreachable(config: PipelineConfig) -> Iterator[Violation]:
    """Dataflow's workers can never open the files of a local run. Those of a cluster may share its folder."""
    if config.beam.runner == "dataflow":
        what = f"Dataflow's workers cannot open files in {config.pipeline.root} on this machine"
        yield ("beam", "runner"), f"{what}; set beam.runner to `direct` or `auto` for a local run"


def _bucketless(push: str | None) -> Iterator[Violation]:
    """An object store that the model, after all its training, could not be pushed to."""
    if push is None or not is_remote(push):
        return
    scheme, _, rest = push.partition("://")
    try:
        if not is_folder(f"{scheme}://{rest.partition('/')[0]}"):
            yield ("deploy", "push"), f"{push}: there is no such bucket; create it, or correct its name"
    except DataError as error:
        yield ("deploy", "push"), str(error)


def _unwritable(config: PipelineConfig) -> Iterator[Violation]:
    """Folders named in the config that are not writable."""
    named = ((("pipeline", "root"), config.pipeline.root), (("deploy", "push"), config.push_directory))
    for where, folder in named:
        if folder is not None and not is_remote(folder) and (why := why_not_writable(Path(folder).absolute())):
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


def _spans(data: DataConfig) -> Sequence[Span]:
    """The spans to read, the newest last."""
    from headrace.components.spans.find import find_spans

    return find_spans(data.model_copy(update={"fingerprint": "times"})).spans


def _columns(config: PipelineConfig, span: Span) -> list[str]:
    """The columns of a span. Raises DataError."""
    from headrace.components.sources import open_source
    from headrace.components.sources.by_split import SourceBySplit

    source = open_source(config.data.source, span.paths, splits=span.splits)
    return source.columns(config.read_columns) if isinstance(source, SourceBySplit) else source.columns()


def _earlier_columns(config: PipelineConfig) -> EarlierColumns | None:
    """Those of the span before the newest, inside the window or not; None if there is none, or it cannot be read."""
    try:
        spans = _spans(config.data.model_copy(update={"window": "all"}))  # the one before may be a week older
        if len(spans) < 2:
            return None
        before, newest = spans[-2:]
        return EarlierColumns(_columns(config, before), newest.name, before.name)
    except DataError:  # a run reports it
        return None


def _schema_violations(schema: str, float64: Sequence[str]) -> Iterator[Violation]:
    if not Path(schema).is_file():
        yield ("data", "schema"), _no_file(schema)
    elif float64:
        from headrace.components.schema import check_float64, read_schema

        try:
            found = read_schema(schema)
        except DataError:  # the check of the first rows, which have these types, reports it
            return
        try:
            check_float64(found, schema, float64)
        except DataError as error:
            yield ("data", "schema"), str(error)


def file_violations(config: PipelineConfig) -> Iterator[Violation]:
    """Files named in the config that do not exist, and a schema that lacks a column of bits."""
    if (schema := config.data.schema_file) is not None:
        yield from _schema_violations(schema, config.data.float64_columns)
    for section, kind in _kinds(config):
        for path, file in kind.files().items():
            found = Path(file).exists() if section == ("model",) else Path(file).is_file()
            if "://" not in file and not found:
                yield (*section, *path), _no_file(file)
        for path, folder in kind.saved_models().items():  # the Trainer checks one that is given by an address
            if "://" not in folder and not Path(folder, "saved_model.pb").is_file():
                what = f"{folder} is not a SavedModel: it has no file saved_model.pb (relative to {Path.cwd()})"
                yield (*section, *path), what


def _kinds(config: PipelineConfig) -> Iterator[tuple[KeyPath, Kind]]:
    """The sections of which a tag selects the class."""
    yield ("data", "source"), config.data.source
    if config.predict is not None:
        yield ("predict", "source"), config.predict.source
    if config.gates.skew is not None:
        yield ("gates", "skew", "source"), config.gates.skew.source
    for name, feature in config.declared_features.items():
        yield ("features", name), feature
    yield ("model",), config.model


def _no_file(file: str) -> str:
    folder = Path(file).parent
    others = [str(folder / other.name) for other in folder.iterdir()] if folder.is_dir() else []
    return f"there is no file {file} (relative to {Path.cwd()}){did_you_mean(file, others)}"


def function_violations(config: PipelineConfig) -> Iterator[Violation]:
    """The user's own functions that cannot be imported."""
    named: list[tuple[KeyPath, str]] = []
    for section, kind in _kinds(config):
        if section[-1] != "source" and kind != config.own_training:  # of a source, its reader calls them
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
) -> Iterator[Violation]:
    """A function that cannot be imported, or that cannot be called with its caller's arguments."""
    if why := why_not_importable(path) or why_not_callable(path, argument, *optional, caller=caller):
        yield where, why
