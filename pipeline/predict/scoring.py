"""What `headrace predict` resolves before it reads any data: the model, the input, and where the work runs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from headrace.common.durable import working_folder
from headrace.common.environment import prepare, quiet
from headrace.common.errors import RunError
from headrace.common.figures import plural
from headrace.common.names import join_or
from headrace.common.storage.paths import local_output
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import ConfigSource, Override, load_with_locations
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.predict import Probabilities
from headrace.configs.schema.sources import FileSource, ImagesSource, SourceConfig
from headrace.configs.schema.sources.endings import JSON, kind_of_ending, known_ending, known_endings, source_from
from headrace.pipeline.predict.models import ChosenModel, choose_model, is_model, model_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.predict.predict import Predicted, Request
    from headrace.components.sources import ParallelMap

logger = logging.getLogger(__name__)

TFRECORD = "tfrecord"
"""The kind of source for a name that contains this, such as `data_tfrecord-00000-of-00001.gz`."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """What the predictions look like, and how many are computed at a time."""

    columns: Sequence[str] | None = None
    """The columns of the input in front of the predictions. None: all."""
    prefix: str = ""
    """Text in front of the names of the predictions' columns."""
    probabilities: Probabilities = "auto"
    """Which of them, as in `PredictConfig`."""
    batch_size: int | None = None
    """Examples in a call of the model. None: up to 2,048, fewer if they are large."""

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise RunError(f"batch_size is {self.batch_size}; it must be at least 1")
        if self.probabilities not in (known := get_args(Probabilities)):
            raise RunError(f"probabilities is {self.probabilities!r}; it must be {join_or(known)}")


@dataclass(frozen=True)
class Scoring:
    """A request for predictions, and the Beam settings of its work."""

    request: Request
    model: ChosenModel
    beam: BeamConfig

    def to_file(self, output: Path) -> Predicted:
        """Write the predictions. Raises RunError if the output cannot be written."""
        _check_output(local_output(output))
        from headrace.components.predict.predict import predict_file
        from headrace.components.predict.writers import format_of

        format_of(output)
        self._load()
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with working_folder(output) as work:
                here = self.beam.runner == "auto"
                parallel_map = _here() if here else self._beam_map(work)
                done = predict_file(self.request, output, parallel_map, work, tasks=not here)
        except PermissionError as error:
            raise RunError(f"{output} cannot be written: {error.strerror}") from error
        _log_left_out(done)
        return done

    def to_table(self) -> tuple[pa.Table, Predicted]:
        """The predictions as a table in memory."""
        from headrace.components.predict.predict import predict_table

        self._load()
        with tempfile.TemporaryDirectory() as work:
            table, done = predict_table(self.request, _here(), Path(work))
        _log_left_out(done)
        return table, done

    def _load(self) -> None:
        """Load the model before any data is read. Workers of Beam load it again."""
        with quiet():  # TensorFlow reports that there is no GPU
            self.request.predictor.load()

    def _beam_map(self, work: Path) -> ParallelMap:
        """Every task in a Beam pipeline of the config's runner."""
        from headrace.components.beam_pipelines import BeamPipelines
        from headrace.components.example_gen.beam_map import BeamMap

        results, scratch = work / "results", work / "scratch"
        results.mkdir()
        scratch.mkdir()
        return BeamMap(BeamPipelines(self.beam, scratch), results, 0, always=True)


def open_scoring(
    config: ConfigSource,
    data: Any,
    *,
    model: str | PathLike[str] | int | None,
    form: Form,
    profile: str | None,
    overrides: Sequence[Override],
) -> Scoring:
    """Find the model and the data that `predict` is given."""
    prepare()
    given = str(data) if isinstance(data, PathLike) else data
    if given is not None and not isinstance(given, str):
        from headrace.components.sources.arrays.tables import as_table

        given = as_table(given)
    if is_model(config):
        if model is not None or profile is not None or overrides:
            raise RunError(f"{config} is a model and not a config, so it takes no model, profile or settings")
        return _by_model(model_folder(Path(str(config))) or Path(), given, form)
    loaded = load_with_locations(config, profile, overrides)
    wanted = None if model is None else str(model)
    return _by_config(loaded.config, given, wanted, form)


def _by_config(config: PipelineConfig, given: str | pa.Table | None, model: str | None, form: Form) -> Scoring:
    """Predict with a model of a pipeline. given: a path, or a table; None for the data of the config."""
    chosen = choose_model(config, model)
    table = None if given is None or isinstance(given, str) else given
    source = source_of(given, config.data.source) if isinstance(given, str) else config.data.source
    data = config.data.model_copy(update={"source": source})
    return Scoring(_request(chosen, data, table, form), chosen, config.beam)


def _by_model(folder: Path, given: str | pa.Table | None, form: Form) -> Scoring:
    """Predict with the SavedModel in a folder, without a config."""
    if given is None:
        raise RunError(f"{folder} is a model, which has no data of its own; name the input")
    table = None if isinstance(given, str) else given
    source = source_of(given if isinstance(given, str) else "table.npz", None)
    chosen = ChosenModel(folder, str(folder))
    return Scoring(_request(chosen, DataConfig(source=source), table, form), chosen, BeamConfig())


def _request(chosen: ChosenModel, data: DataConfig, table: pa.Table | None, form: Form) -> Request:
    with quiet():
        from headrace.components.predict.model import Predictor
        from headrace.components.predict.predict import Request
        from headrace.components.predict.reading import Input
        from headrace.trainer.description import ModelDescription
    predictor = Predictor(chosen.folder.absolute(), ModelDescription.read(chosen.folder), form.batch_size)
    return Request(Input(data, table), predictor, form.columns, form.prefix, form.probabilities)


def predict_table(folder: Path, data: Any, form: Form) -> pa.Table:
    """The predictions of the SavedModel in a folder for data in memory; see `headrace.predict`."""
    from headrace.components.sources.arrays.tables import as_table

    return _by_model(folder, as_table(data), form).to_table()[0]


def source_of(path: str, usual: SourceConfig | None) -> SourceConfig:
    """The source for a path: with the settings of the config's source if it is of that kind, else those of its ending.

    Raises RunError for an ending that is unknown, if the config's source does not read files either.
    """
    ending = known_ending(path)
    kind = None if ending is None else kind_of_ending(ending)
    if ending == JSON:
        from headrace.components.sources.jsonl.array import kind_of_json

        kind = kind_of_json(path)
    if kind is None and TFRECORD in path.rstrip("/").rpartition("/")[2]:
        kind = TFRECORD
    if kind is None and Path(path).is_dir():
        from headrace.components.sources.datasets.streams import is_dataset

        kind = "datasets" if is_dataset(path.removesuffix("/")) else None
    if usual is not None and usual.split_names:
        usual = usual.of_split(usual.split_names[0])
    if isinstance(usual, ImagesSource) or (usual is None and kind is None and _is_of_images(path)):
        return _images(path, usual, kind)
    if isinstance(usual, FileSource) and kind in {None, usual.kind}:
        return _with(usual, "path", path)
    if kind is None and Path(path).is_dir():
        kind = "parquet"
    if kind is None:
        raise RunError(f"{path}: the ending is not that of a known kind of data: {known_endings()}")
    return source_from({"kind": kind, "path": path})


def _images(path: str, usual: ImagesSource | None, kind: str | None) -> SourceConfig:
    """The source for images: an index, the folder of its relative paths, or class folders; or if images are in the
    folder itself, all of the images in it, without labels.
    """
    if usual is not None and (usual.index is not None or not _has_images(path)):
        return _with(usual, "index" if usual.index is not None and kind in {"csv", "parquet"} else "path", path)
    settings = {} if usual is None else usual.model_dump()
    return source_from({**settings, "kind": "images", "path": path, "labels": "none"})


def _is_of_images(path: str) -> bool:
    """Whether a folder has images in itself, and not beside Parquet files, as which a folder is read otherwise."""
    from headrace.components.sources.images.listing import files_in

    return not any(file.endswith(".parquet") for file in files_in(path)) and _has_images(path)


def _has_images(path: str) -> bool:
    from headrace.components.sources.images.listing import has_images

    return has_images(path)


def _with(source: FileSource | ImagesSource, setting: str, path: str) -> SourceConfig:
    return source_from({**source.model_dump(), setting: path})


def _log_left_out(done: Predicted) -> None:
    """Log which columns and records the predictions were made without."""
    for column, reason in done.unreadable.items():
        logger.warning("left out: column %r %s", column, reason)
    for line in done.skipped.reported:
        logger.warning("skipped: %s", line)
    if done.skipped.count:
        logger.warning("skipped %s that cannot be read", plural(done.skipped.count, "record"))


def _check_output(output: Path) -> None:
    """Raise RunError if the output is a folder, or would be below a file."""
    if output.is_dir():
        raise RunError(f"{output} cannot be written: it is a folder")
    existing = next(folder for folder in output.absolute().parents if folder.exists())
    if not existing.is_dir():
        raise RunError(f"{output} cannot be written: {existing} is not a folder")


def _here() -> ParallelMap:
    from headrace.components.sources import serial_map

    return serial_map
