"""A run that ended, for programs and notebooks: its verdict, metrics, data and model.

run = headrace.run("taxi.yaml")
run.blessed, run.metrics["auc"]            # True, 0.9464
run.examples("eval").to_pandas()
run.model().signatures["serving_raw"]
"""

from __future__ import annotations

import datetime as dt
import html
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from headrace.components.evaluation.result import Evaluation, read_evaluation
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.pipeline.environment import prepare
from headrace.pipeline.local.record import FILE_NAME as RECORD_NAME
from headrace.pipeline.local.record import ArtifactRecord, RunRecord, Status
from headrace.pipeline.report.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import tensorflow_transform as tft
    from tensorflow_metadata.proto.v0.schema_pb2 import Schema
    from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

    from headrace.pipeline.report.verdict import Verdict

WHOLE = "all"
"""The row of `metrics_frame` that is the whole split."""
MODEL = "Format-Serving"


class Run:
    """One run of a pipeline on this machine. What the run did not come to is None, or raises RunError where it would
    have to be read.

    Everything is read when it is asked for: neither the class nor the attributes that need no artifact load TensorFlow.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Run:
        """The run of a folder `<root>/<name>/runs/<id>`. Raises RunError if there is none, or its record is damaged."""
        try:
            found = RunFolder.read(Path(path))
            TypeAdapter(RunRecord).validate_python(asdict(found.record))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunError(f"no run can be read in {path}: {why}") from error
        return cls(found)

    @property
    def id(self) -> str:
        """The name of its folder: when it began, in local time."""
        return self._folder.record.run_id

    @property
    def path(self) -> Path:
        """Its folder, with the report, the record and the components' logs."""
        return self._folder.path

    @property
    def record(self) -> RunRecord:
        """What `run.json` has: every component with its status, times and outputs."""
        return self._folder.record

    @property
    def status(self) -> Status:
        """done, failed or interrupted; running of one that goes on, or that was killed."""
        return self._folder.record.status

    @property
    def ended_early(self) -> str | None:
        """Why there was nothing to train for (`schedule.retrain`); None of a run that trained."""
        return self._folder.record.ended

    @property
    def started(self) -> dt.datetime:
        """In UTC."""
        return dt.datetime.fromtimestamp(self._folder.record.started, dt.UTC)

    @property
    def config(self) -> PipelineConfig | None:
        """As it was loaded for this run; None if another version of Headrace wrote it."""
        return self._folder.config

    @property
    def blessed(self) -> bool | None:
        """Whether the model is good enough by `evaluate.thresholds`; None if the run came to no judgement."""
        return None if self._evaluation is None else self._evaluation.blessed

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not blessed, or what it was held against."""
        return self._verdict.reasons

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Over the whole split that is evaluated, by their names in the config; empty if the run came to none."""
        return {} if self._evaluation is None else dict(self._evaluation.metrics)

    @property
    def metrics_frame(self) -> pd.DataFrame:
        """A row for the whole split (`all`) and for each slice: `examples` [count], then each metric."""
        import pandas as pd

        found = self._evaluation
        if found is None:
            return pd.DataFrame({"examples": pd.Series(dtype="int64")})
        rows = {WHOLE: {"examples": found.example_count, **found.metrics}}
        rows |= {each.name: {"examples": each.example_count, **each.metrics} for each in found.slices}
        return pd.DataFrame.from_dict(rows, orient="index").astype(dict.fromkeys(found.metrics, "float64"))

    @property
    def pushed(self) -> Path | None:
        """The folder of the version that this run pushed, which may be gone since; None if it pushed nothing."""
        model = self._folder.output("Pusher", "pushed_model")
        if model is None or not model.properties.get("pushed"):
            return None
        return Path(str(model.properties.get("pushed_destination") or model.uri))

    @property
    def report(self) -> Path:
        """One HTML page that opens from disk; written if it is not there, or older than what is known of the run."""
        from headrace.pipeline.report import FILE_NAME, write_report

        file = self.path / FILE_NAME
        try:
            known = (self.path / RECORD_NAME).stat().st_mtime_ns
            return file if file.is_file() and file.stat().st_mtime_ns >= known else write_report(self.path)
        except OSError as error:
            raise RunError(f"the report of run {self.id} cannot be written: {error}") from error

    def artifact(self, component: str, output: str | None = None) -> ArtifactRecord:
        """What a component wrote: its type, URI and properties.

        component: as the report names it, such as "SchemaGen"; output: such as "schema", which may be left out where
        there is one only. Raises RunError if the run has none.
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
            which = f"output {output} of {component}" if output else f"single output of {component}"
            raise RunError(f"run {self.id} has no {which}; {have}")
        found = outputs[output]
        place = self._folder.directory(component, output)
        if place is None:
            raise RunError(f"{found.uri} is gone, which {component} wrote in run {self.id} or before")
        return ArtifactRecord(found.type, str(place), found.properties)

    def examples(self, split: str = "train", *, transformed: bool = False) -> pa.Table:
        """The examples of a split, a row each, as ExampleGen wrote them, or (`transformed`) as the Trainer reads them.

        A column of which no example has several values holds the values: int64, float32 or large_binary, null where
        there is none, null without a type where all are missing. Others hold lists. Raises RunError if there is no such
        split or files of it are gone, DataError if one is damaged.
        """
        prepare()
        from headrace.pipeline.example_table import example_table

        names = ("Transform", "transformed_examples") if transformed else ("ExampleGen", "examples")
        table = example_table(self._split(*names, split))
        written = json.loads(str(self.artifact(*names).properties.get("rows") or "{}")).get(split)
        if written is not None and table.num_rows != written:
            raise RunError(f"run {self.id} wrote {written:,} examples of {split}, and {table.num_rows:,} are left")
        return table

    def statistics(self, split: str = "train") -> DatasetFeatureStatisticsList:
        """TFDV's statistics of a split, such as `tensorflow_data_validation.visualize_statistics` shows."""
        from google.protobuf.message import DecodeError
        from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

        file = self._split("StatisticsGen", "statistics", split) / "FeatureStats.pb"
        try:
            return DatasetFeatureStatisticsList.FromString(file.read_bytes())
        except (OSError, DecodeError) as error:
            raise RunError(f"the statistics of run {self.id} cannot be read: {file}: {error}") from error

    @property
    def schema(self) -> Schema:
        """Of the data columns (TensorFlow Metadata)."""
        from headrace.components.schema import read_schema

        return read_schema(Path(self.artifact("SchemaGen").uri) / "schema.pbtxt")

    @property
    def transform(self) -> tft.TFTransformOutput:
        """TensorFlow Transform's output: the graph from data columns to features, vocabularies, schemas."""
        prepare()
        import tensorflow_transform as tft

        return tft.TFTransformOutput(self.artifact("Transform", "transform_graph").uri)

    def model(self) -> Any:
        """The trained model, blessed or not, loaded by `tf.saved_model.load`; README lists its signatures."""
        folder = Path(self.artifact("Trainer", "model").uri) / MODEL
        if not (folder / "saved_model.pb").is_file():
            raise RunError(f"the model of run {self.id} is gone from {folder}")
        import tensorflow as tf

        return tf.saved_model.load(str(folder))

    def _split(self, component: str, output: str, split: str) -> Path:
        place = Path(self.artifact(component, output).uri)
        found = place / f"Split-{split}"
        if not found.is_dir():
            have = sorted(each.name.removeprefix("Split-") for each in place.glob("Split-*"))
            raise RunError(
                f"run {self.id} has no split {split} of {component}'s {output}; there are: {', '.join(have)}"
            )
        return found

    @cached_property
    def _evaluation(self) -> Evaluation | None:
        """None if the run came to none. Raises RunError if it is gone or damaged."""
        if self._folder.output("Evaluator", "evaluation") is None:
            return None
        return read_evaluation(self.artifact("Evaluator", "evaluation").uri)

    @cached_property
    def _verdict(self) -> Verdict:
        from headrace.pipeline.report.verdict import read_verdict

        return read_verdict(self._folder)

    def __repr__(self) -> str:
        try:
            word = {True: ", blessed", False: ", not blessed", None: ""}[self.blessed]
        except RunError:
            word = ", whose evaluation cannot be read"
        return f"<Run {self.id} of {self.record.pipeline}: {self.status}{word}>"

    def _repr_html_(self) -> str:
        """The report, for notebooks. It cannot reach the notebook: its scripts run in a frame of their own origin."""
        page = html.escape(self.report.read_text(encoding="utf-8"), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="width: 100%; height: 720px; border: 0"></iframe>'
        )
