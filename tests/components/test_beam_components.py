"""The Beam components after ExampleGen in every way of this machine, on the same examples: their artifacts are equal.

Two files of a transform graph are excepted, `transform_fn/saved_model.pb` and `fingerprint.pb`: TensorFlow Transform
numbers the nodes of its graph in an order that differs from run to run, and names tables after its temporary folder.
For them, the graph must have the same nodes and the same constants. With several workers the constants may differ in
their last bits, because TensorFlow Transform merges in the order in which workers finish (docs/beam.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from beam_runs import AUTO, DIRECT, PROCESSES, THREADS, contents, forked_workers, make, transforms
from decoded_examples import decoded
from google.protobuf import text_format
from plain_models import export
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tensorflow_model_analysis.proto.metrics_for_slice_pb2 import MetricsForSlice
from tfx.types import Channel, standard_artifacts

from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.evaluation import component as evaluation
from headrace.components.evaluation.result import read_evaluation
from headrace.components.schema_gen import infer_schema
from headrace.components.statistics import component as statistics
from headrace.components.transform import component as transform
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.evaluate import EvaluateConfig, Threshold
from headrace.configs.schema.label import LabelConfig
from headrace.pipeline.kubeflow.verify.compare import GRAPH, GRAPH_FILE, same_graph

ROWS, SHARDS = 9000, 5
LABEL = {"key": "y", "kind": "binary"}
FEATURES = {
    "a": {"column": "numeric"},
    "fifth": {"column": "bucketized", "key": "fare", "buckets": 5},
    "fare": {"column": "numeric", "normalize": "log"},
    "word": {"column": "vocabulary"},
    "tags": {"column": "vocabulary", "multivalued": True},
    "pair": {"column": "crossed", "keys": ["hour", "word"], "hash_buckets": 50},
}
ONE_PROCESS = BeamConfig(runner="direct", direct_running_mode="multi_processing")
AUTO_THREADS = BeamConfig(workers=3)
WAYS = {
    "auto": AUTO,
    "auto_threads": AUTO_THREADS,
    "direct": DIRECT,
    "multi_threading": THREADS,
    "multi_processing": PROCESSES,
}
WAYS_OF_TRANSFORM = {**WAYS, "multi_processing": ONE_PROCESS}
OTHER_WAYS = ["direct", "multi_threading", pytest.param("multi_processing", marks=pytest.mark.slow)]


@dataclass(frozen=True)
class Artifacts:
    """What the components read. `models`: the candidate and the baseline."""

    examples: Any
    schema: Any
    models: tuple[Any, Any]


@dataclass(frozen=True)
class Made:
    """What they wrote, by component: the folder, its uncompressed files by path, and what Beam executed."""

    folder: Path
    files: dict[str, dict[str, bytes]]
    executed: dict[str, str]
    blessing: Any


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    """Examples in five shards a split, with values whose sums depend on the order in which they are added."""
    folder, random = tmp_path_factory.mktemp("given"), np.random.default_rng(11)
    fare = random.lognormal(2, 2, ROWS)
    columns = {
        "a": random.normal(size=ROWS).astype(np.float32),
        "fare": pa.array(np.where(random.random(ROWS) < 0.1, np.nan, fare).astype(np.float32), from_pandas=True),
        "hour": pa.array(random.integers(0, 24, ROWS), mask=random.random(ROWS) < 0.1),
        "word": [f"word {value}" for value in random.zipf(1.4, ROWS) % 300],
        "tags": [["a", "b", "ü"][: number % 4] for number in range(ROWS)],
        "y": (random.random(ROWS) < 0.3).astype(np.float32),
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    source = {"kind": "parquet", "path": str(folder / "rows.parquet")}
    data = DataConfig.model_validate({"source": source, "splits": {"train": 1, "test": 1}, "shards": SHARDS})
    made = make(data, folder / "examples", AUTO)
    splits = [Path(made.statistics.uri, f"Split-{name}", "FeatureStats.pb") for name in data.splits]
    schema = standard_artifacts.Schema()
    schema.uri = str(folder)
    inferred = infer_schema([DatasetFeatureStatisticsList.FromString(path.read_bytes()) for path in splits])
    (folder / "schema").mkdir()
    schema.uri = str(folder / "schema")
    (folder / "schema" / "schema.pbtxt").write_text(text_format.MessageToString(inferred), encoding="utf-8")
    models = export(folder / "candidate", "binary", 0.4), export(folder / "baseline", "binary", 0.3)
    return Artifacts(made.examples, schema, models)


@pytest.fixture(scope="module")
def run(given: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """What one of the ways makes, once for all tests."""
    made: dict[str, Made] = {}

    def run(way: str) -> Made:
        if way not in made:
            with forked_workers():
                made[way] = execute(given, tmp_path_factory.mktemp(way), way)
        return made[way]

    return run


def execute(given: Artifacts, folder: Path, way: str) -> Made:
    outputs, executed = {}, {}
    for name, (executor, inputs, types, properties) in components(given).items():
        pipelines = BeamPipelines((WAYS_OF_TRANSFORM if name == "Transform" else WAYS)[way], folder)
        outputs[name] = {key: type_() for key, type_ in types.items()}
        for key, artifact in outputs[name].items():
            artifact.uri = str(folder / name / key)
        lists = {key: [artifact] for key, artifact in outputs[name].items()}
        executor(executor.Context(make_beam_pipeline_fn=pipelines)).Do(inputs, lists, properties)
        executed[name] = pipelines.summary
    files = {name: contents(folder / name, *artifacts.values()) for name, artifacts in outputs.items()}
    return Made(folder, files, executed, outputs["Evaluator"]["blessing"])


def components(given: Artifacts) -> dict[str, tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """The executor, inputs, types of outputs and properties of each."""
    config = json.dumps({"label": LABEL, "features": FEATURES})
    transforms_by = {
        "preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn",
        "custom_config": json.dumps({"config": config}),
        "disable_statistics": 1,
        "force_tf_compat_v1": 0,
    }
    thresholds = {"auc": Threshold(min=0.1, not_worse_than_baseline_by=0.5)}
    judged = evaluation.evaluator(
        examples=Channel(standard_artifacts.Examples),
        model=Channel(standard_artifacts.Model),
        baseline=Channel(standard_artifacts.Model),
        label=LabelConfig.model_validate(LABEL),
        evaluate=EvaluateConfig(slices=("word", ("hour", "y")), thresholds=thresholds, better_than_constant=False),
        split="test",
        rows=5,
    )
    examples, (model, baseline) = {"examples": [given.examples]}, given.models
    return {
        "StatisticsGen": (
            statistics.Executor,
            examples,
            {"statistics": standard_artifacts.ExampleStatistics},
            {"exclude_splits": "[]"},
        ),
        "Transform": (
            transform.Executor,
            {**examples, "schema": [given.schema]},
            {"transform_graph": standard_artifacts.TransformGraph, "transformed_examples": standard_artifacts.Examples},
            transforms_by,
        ),
        "Evaluator": (
            evaluation.Executor,
            {**examples, "model": [model], "baseline_model": [baseline]},
            {"evaluation": standard_artifacts.ModelEvaluation, "blessing": standard_artifacts.ModelBlessing},
            judged.exec_properties,
        ),
    }


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_statistics_are_the_same_bytes(run: Callable[[str], Made], way: str) -> None:
    ours, theirs = run("auto").files["StatisticsGen"], run(way).files["StatisticsGen"]
    assert set(ours) == {f"statistics/Split-{split}/FeatureStats.pb" for split in ("train", "test")}
    assert theirs == ours
    sizes = [DatasetFeatureStatisticsList.FromString(content).datasets[0].num_examples for content in ours.values()]
    assert sum(sizes) == ROWS
    assert min(sizes) > ROWS // 3


@pytest.mark.parametrize("way", [OTHER_WAYS[0], OTHER_WAYS[2]])
def test_transformed_examples_and_the_graph_are_the_same(run: Callable[[str], Made], way: str) -> None:
    ours, theirs = run("auto"), run(way)
    left, right = ours.files["Transform"], theirs.files["Transform"]
    assert len([name for name in left if name.endswith(".gz")]) == 2 * SHARDS
    assert {"transform_graph/transform_fn/assets/word", "transform_graph/transform_fn/assets/tags"} <= left.keys()
    excepted = {f"transform_graph/{name}" for name in GRAPH}
    assert excepted <= left.keys() == right.keys()
    assert [name for name in left if name not in excepted and left[name] != right[name]] == []
    graphs = [made.folder / "Transform" / "transform_graph" / GRAPH_FILE for made in (ours, theirs)]
    assert same_graph(*graphs)


def test_several_workers_change_an_analysis_only_in_the_last_bits(run: Callable[[str], Made]) -> None:
    left, right = run("auto").files["Transform"], run("multi_threading").files["Transform"]
    assets = [name for name in left if "/assets/" in name or name.endswith(".pbtxt")]
    assert len(assets) >= 4
    assert [name for name in assets if left[name] != right[name]] == []
    folders = [run(way).folder / "Transform" / "transformed_examples" for way in ("auto", "multi_threading")]
    for file in sorted(folders[0].rglob("*.gz")):
        ours, theirs = (read(folder / file.relative_to(folders[0])) for folder in folders)
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            assert other == {name: pytest.approx(values, rel=1e-6, abs=1e-6) for name, values in one.items()}


def read(file: Path) -> list[dict[str, Any]]:
    return [decoded(record) for record in tf.data.TFRecordDataset(str(file), "GZIP").take(200).as_numpy_iterator()]


@pytest.mark.parametrize("way", ["auto_threads", *OTHER_WAYS])
def test_every_file_of_an_evaluation_is_the_same(run: Callable[[str], Made], way: str) -> None:
    ours, theirs = run("auto"), run(way)
    files = ours.files["Evaluator"]
    names = ("eval_config.json", "evaluation.json", "metrics.tfrecord", "plots.tfrecord", "validations.tfrecord")
    assert set(files) == {*(f"evaluation/{name}" for name in names), "blessing/BLESSED"}
    assert theirs.files["Evaluator"] == files
    left, right = (dict(made.blessing.mlmd_artifact.custom_properties) for made in (ours, theirs))
    assert right == left
    assert {"blessed", "current_model", "baseline_model"} <= left.keys()


def test_the_slices_of_an_evaluation_have_one_order_in_all_of_its_files(run: Callable[[str], Made]) -> None:
    folder = run("auto").folder / "Evaluator" / "evaluation"
    judged = read_evaluation(folder)
    words = [each.name for each in judged.slices if each.name.startswith("word = ")]
    assert [each.name for each in judged.slices][: len(words)] == words == sorted(words)
    records = tf.data.TFRecordDataset(str(folder / "metrics.tfrecord")).as_numpy_iterator()
    keys = [MetricsForSlice.FromString(record).slice_key.single_slice_keys for record in records]
    assert [", ".join(f"{one.column} = {value(one)}" for one in key) for key in keys] == [
        "",
        *(each.name for each in judged.slices),
    ]
    assert list(json.loads((folder / "eval_config.json").read_text())["modelLocations"]) == ["baseline", "candidate"]
    assert tfma.load_validation_result(str(folder)).validation_ok


def value(key: Any) -> Any:
    """The value of a column, as a slice's name has it."""
    found = getattr(key, key.WhichOneof("kind"))
    return found.decode() if isinstance(found, bytes) else f"{found:g}"


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_all_but_the_small_work_of_auto_went_through_beam(run: Callable[[str], Made], way: str) -> None:
    auto, other = run("auto").executed, run(way).executed
    for name in ("StatisticsGen", "Transform", "Evaluator"):
        assert auto[name].startswith("auto, no pipeline")
    for name, pipelines in {"StatisticsGen": 1, "Transform": 2, "Evaluator": 1}.items():
        assert transforms(other[name], pipelines) >= 4 * pipelines
