"""One run of a pipeline, for programs and notebooks: its verdict, metrics, data and model.

run = headrace.run("taxi.yaml")
run.blessed, run.metrics["auc"]            # True, 0.9464
run.examples("eval").to_pandas()
run.model().signatures["serving_raw"]
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import html
import json
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from headrace.common.environment import prepare, quiet
from headrace.common.errors import RunError
from headrace.components.evaluation.result import Evaluation, read_evaluation
from headrace.configs.config import PipelineConfig
from headrace.pipeline.results.record import FILE_NAME as RECORD_NAME
from headrace.pipeline.results.record import ArtifactRecord, RunRecord, Status, newest_first
from headrace.pipeline.results.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import tensorflow_transform as tft
    from tensorflow_metadata.proto.v0.schema_pb2 import Schema
    from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

    from headrace.pipeline.folders import Folders
    from headrace.pipeline.predict.trained import TrainedModel
    from headrace.pipeline.results.verdict import ModelVerdict

WHOLE = "all"
"""The row of `metrics_frame` for the whole split."""


class Run:
    """One run of a pipeline on this machine.

    Results that the run did not get to are None; artifacts that it did not make raise RunError. Everything is read on
    access, and TensorFlow is loaded only to read artifacts that need it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Run:
        """Read the run in the folder `<root>/<name>/runs/<id>`. Raises RunError if there is none, or it is damaged."""
        try:
            found = RunFolder.read(Path(path))
            _record_form().validate_python(asdict(found.record))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunError(f"there is no readable run in {path}: {why}") from error
        return cls(found)

    @property
    def id(self) -> str:
        """The name of its folder: the local time at which it started."""
        return self._folder.record.run_id

    @property
    def path(self) -> Path:
        """Its folder, which holds the report, the record and the components' logs."""
        return self._folder.path

    @property
    def record(self) -> RunRecord:
        """The content of `run.json`: every component with its status, times and outputs."""
        return self._folder.record

    @property
    def status(self) -> Status:
        """done, failed or interrupted; running for a run in progress, or one that was killed."""
        return self._folder.record.status

    @property
    def ended_early(self) -> str | None:
        """Why there was no reason to train (`schedule.retrain`); None for a run that did not end early."""
        return self._folder.record.ended

    @property
    def started(self) -> dt.datetime:
        """The time at which it started, in UTC."""
        return dt.datetime.fromtimestamp(self._folder.record.started, dt.UTC)

    @property
    def config(self) -> PipelineConfig | None:
        """The config as it was loaded for this run; None if another version of Headrace wrote it."""
        return self._folder.config

    @property
    def blessed(self) -> bool | None:
        """Whether the model meets `evaluate.thresholds` and passed its canary; None if the run did not evaluate it."""
        return None if self._evaluation is None else self._folder.blessed  # which does not tell damaged from absent

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the model is not blessed, or what it was compared with."""
        return self._verdict.reasons

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """The metrics over the whole evaluated split, by their names in the config; empty if there are none."""
        return {} if self._evaluation is None else dict(self._evaluation.metrics)

    @property
    def metrics_frame(self) -> pd.DataFrame:
        """A row for the whole split (`all`) and for each slice, with the columns `examples` (count) and each metric."""
        import pandas as pd

        found = self._evaluation
        if found is None:
            return pd.DataFrame({"examples": pd.Series(dtype="int64")})
        rows = {WHOLE: {"examples": found.example_count, **found.metrics}}
        rows |= {each.name: {"examples": each.example_count, **each.metrics} for each in found.slices}
        return pd.DataFrame.from_dict(rows, orient="index").astype(dict.fromkeys(found.metrics, "float64"))

    @property
    def pushed(self) -> Path | None:
        """The folder of the version that this run pushed, or its copy here if that is in an object store; None if it
        pushed nothing. The folder may be gone since.
        """
        model = self._folder.output("Pusher", "pushed_model")
        if model is None or not model.properties.get("pushed"):
            return None
        return Path(str(model.properties.get("pushed_destination") or model.uri))

    @property
    def awaiting_approval(self) -> bool:
        """Whether it left its blessed model awaiting approval (`deploy.approval: manual`), and nobody promoted it."""
        from headrace.pipeline.results.verdict import read_verdict

        return read_verdict(self._folder).awaiting is not None

    @property
    def report(self) -> Path:
        """The report, one HTML page that opens from disk. It is written first if it is missing or out of date."""
        from headrace.pipeline.report import FILE_NAME, write_report

        file = self.path / FILE_NAME
        try:
            recorded = (self.path / RECORD_NAME).stat().st_mtime_ns
            return file if file.is_file() and file.stat().st_mtime_ns >= recorded else write_report(self.path)
        except OSError as error:
            raise RunError(f"the report of run {self.id} cannot be written: {error}") from error

    def artifact(self, component: str, output: str | None = None) -> ArtifactRecord:
        """An output of a component: its type, URI and properties.

        component: its name in the report, such as "SchemaGen"; output: such as "schema"; optional if the component has
        only one. Raises RunError if the run has no such output, or its files are gone.
        """
        nodes = {node.id: node for node in self.record.nodes}
        if not nodes:
            raise RunError(f"run {self.id} ended before its components were known")
        if component not in nodes:
            raise RunError(f"run {self.id} has no component {component}; it has: {', '.join(nodes)}")
        outputs = nodes[component].outputs
        if output is None and len(outputs) == 1:
            (output,) = outputs
        if output is None or output not in outputs:
            have = f"its outputs are: {', '.join(outputs)}" if outputs else f"its status is {nodes[component].status}"
            which = f"output {output} of {component}" if output else f"unique output of {component}"
            raise RunError(f"run {self.id} has no {which}; {have}")
        found = outputs[output]
        directory = self._folder.directory(component, output)
        if directory is None:
            raise RunError(f"{found.uri} is gone; {component} wrote it in run {self.id} or before")
        return ArtifactRecord(found.type, str(directory), found.properties)

    def examples(self, split: str = "train", *, transformed: bool = False) -> pa.Table:
        """The examples of a split, one row each, as ExampleGen wrote them, or, if `transformed`, as the Trainer reads
        them.

        A column with at most one value per example holds the values (int64, float32 or large_binary), with null for
        missing ones; a column in which all are missing has the type null. Other columns hold lists. Raises RunError if
        there is no such split or some of its files are gone, DataError or, for transformed ones, TrainingError if one
        is damaged.
        """
        names = ("Transform", "transformed_examples") if transformed else ("ExampleGen", "examples")
        folder = self._split(*names, split)
        prepare()
        with quiet():  # TensorFlow reports that there is no GPU
            from headrace.pipeline.results.example_table import example_table

            table = example_table(folder)
        written = json.loads(str(self.artifact(*names).properties.get("rows") or "{}")).get(split)
        if written is not None and table.num_rows != written:
            raise RunError(f"run {self.id} wrote {written:,} examples of {split}, but {table.num_rows:,} are left")
        return table

    def statistics(self, split: str = "train") -> DatasetFeatureStatisticsList:
        """TFDV's statistics of a split, for example for `tensorflow_data_validation.visualize_statistics`."""
        from google.protobuf.message import DecodeError
        from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

        file = self._split("StatisticsGen", "statistics", split) / "FeatureStats.pb"
        try:
            return DatasetFeatureStatisticsList.FromString(file.read_bytes())
        except (OSError, DecodeError) as error:
            raise RunError(f"the statistics of run {self.id} cannot be read: {file}: {error}") from error

    @property
    def schema(self) -> Schema:
        """The schema of the data columns (TensorFlow Metadata)."""
        from headrace.components.schema import read_schema

        return read_schema(Path(self.artifact("SchemaGen").uri) / "schema.pbtxt")

    @property
    def transform(self) -> tft.TFTransformOutput:
        """TensorFlow Transform's output: the graph from data columns to features, vocabularies and schemas."""
        prepare()
        with quiet():
            import tensorflow_transform as tft

        return tft.TFTransformOutput(self.artifact("Transform", "transform_graph").uri)

    def model(self) -> TrainedModel:
        """The trained model, blessed or not. docs/outputs.md lists its signatures.

        Its method `predict(data, *, columns=None, prefix="", probabilities="auto", batch_size=None)` returns a Table
        with the predictions for a pandas DataFrame, a pyarrow Table or {name: array}; see `headrace.predict`. It has
        the attributes of what `tf.saved_model.load` returns, too, which the first use of one of them calls. Raises
        RunError if its files are gone or damaged.
        """
        from headrace.pipeline.folders import Folders
        from headrace.pipeline.predict.models import check_folder, model_folder
        from headrace.pipeline.predict.trained import TrainedModel

        artifact = Path(self.artifact("Trainer", "model").uri).absolute()
        folder = model_folder(artifact)
        if folder is None:
            raise RunError(f"the model of run {self.id} is gone from {artifact}")
        check_folder(folder, Folders(self._folder.home))
        prepare()
        return TrainedModel(folder)

    def _split(self, component: str, output: str, split: str) -> Path:
        directory = Path(self.artifact(component, output).uri)
        found = directory / f"Split-{split}"
        if not found.is_dir():
            have = ", ".join(sorted(each.name.removeprefix("Split-") for each in directory.glob("Split-*")))
            raise RunError(f"run {self.id} has no split {split} of {component}'s {output}; the splits are: {have}")
        return found

    @functools.cached_property
    def _evaluation(self) -> Evaluation | None:
        """None if the model was not evaluated. Raises RunError if the evaluation is gone or damaged."""
        if self._folder.output("Evaluator", "evaluation") is None:
            return None
        return read_evaluation(self.artifact("Evaluator", "evaluation").uri)

    @functools.cached_property
    def _verdict(self) -> ModelVerdict:
        from headrace.pipeline.results.verdict import read_verdict

        return read_verdict(self._folder)

    def __repr__(self) -> str:
        try:
            verdict = {True: ", blessed", False: ", not blessed", None: ""}[self.blessed]
        except RunError:
            verdict = ", evaluation unreadable"
        return f"<Run {self.id} of {self.record.pipeline}: {self.status}{verdict}>"

    def _repr_html_(self) -> str:
        """The report, for notebooks. It is in a frame of another origin, so its scripts cannot reach the notebook."""
        page = html.escape(self.report.read_text(encoding="utf-8"), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="width: 100%; height: 720px; border: 0"></iframe>'
        )


def list_runs(folders: Folders) -> list[Run]:
    """The runs in a pipeline's folder, newest first, without those whose record is damaged or of another version."""
    found = []
    for folder in newest_first(folders.runs):
        with contextlib.suppress(RunError):
            found.append(Run.read(folder))
    return found


@functools.cache
def _record_form() -> TypeAdapter[RunRecord]:
    return TypeAdapter(RunRecord)
