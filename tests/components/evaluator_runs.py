"""Runs of the Evaluator as a component, on exported Keras models and real examples whose values the tests know."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import beam_here
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from plain_models import export
from tfx.components.evaluator.executor import Executor as StockExecutor
from tfx.types import Channel, artifact_utils, standard_artifacts

from headrace.components.evaluation import component
from headrace.components.evaluation.result import Evaluation, read_evaluation
from headrace.configs.schema.evaluate import EvaluateConfig
from headrace.configs.schema.label import LabelConfig

ROWS = 600
RAW = ("a", "hour", "w", "some")
LABELS = {
    "binary": LabelConfig(key="y", kind="binary"),
    "multiclass": LabelConfig(key="y", kind="multiclass", classes=3),
    "regression": LabelConfig(key="y", kind="regression"),
}
OUTPUTS = {"multiclass": 3}


def made_data() -> dict[str, np.ndarray]:
    """A drives every label; hour is there to slice by, and missing in every tenth row; w and some are weights."""
    random = np.random.default_rng(0)
    a = random.normal(size=ROWS).astype(np.float32)
    noisy = a + random.normal(size=ROWS)
    classes: np.ndarray = np.digitize(noisy, [-0.5, 0.5])
    labels: dict[str, np.ndarray] = {"binary": noisy > 0, "multiclass": classes, "regression": noisy}
    hour: np.ndarray = random.integers(0, 4, ROWS)
    weights = {"w": random.choice([0.5, 1, 3], ROWS), "some": random.choice([0.0, 0.25, 2], ROWS)}
    return {"a": a, "hour": hour} | {k: v.astype(np.float32) for k, v in (labels | weights).items()}


def made_examples(data: Mapping[str, np.ndarray], root: Path) -> dict[str, Any]:
    """An Examples artifact for each kind of label, in two shards; the split to evaluate is `test`."""
    made = {}
    for kind in LABELS:
        artifact = standard_artifacts.Examples()
        artifact.uri = str(root / kind)
        artifact.split_names = artifact_utils.encode_split_names(["train", "test"])
        for shard in (0, 1):
            path = Path(artifact.uri) / "Split-test" / f"data_tfrecord-{shard:05}-of-00002.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
                for row in range(shard, ROWS, 2):
                    writer.write(
                        make_example({"y": data[kind][row], **{k: data[k][row] for k in RAW}}, missing=row % 10 == 0)
                    )
        made[kind] = artifact
    return made


def make_example(values: dict[str, float], *, missing: bool) -> bytes:
    example = tf.train.Example()
    for name, value in values.items():
        if name != "hour":
            example.features.feature[name].float_list.value.append(value)
    example.features.feature["hour"].int64_list.value.extend([] if missing else [int(values["hour"])])
    return example.SerializeToString()


class Models(dict[str, Any]):
    """The exported models by name, each made when it is first asked for: their predictions rise with `a`, those of
    `worse` fall with it, and those of `broken` are no numbers.
    """

    WEIGHTS = {"binary": 1.0, "worse": -1.0, "broken": math.nan, "multiclass": 1.5, "regression": 0.9}

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, name: str) -> Any:
        kind = name if name in LABELS else "binary"
        self[name] = export(self._root / name, kind, self.WEIGHTS[name], OUTPUTS.get(kind, 1))
        return self[name]


class InProcess(component.Executor):
    def _make_beam_pipeline(self) -> beam.Pipeline:
        return beam_here.pipeline()


class Stock(StockExecutor):
    def _make_beam_pipeline(self) -> beam.Pipeline:
        return beam_here.pipeline()


def run(
    executor: Any,
    directory: Path,
    kind: str,
    examples: Any,
    model: Any,
    baseline: Any = None,
    *,
    weight: str | None = None,
    rows: int = 0,
    **settings: Any,
) -> Any:
    """Execute the component as a runner would; the blessing."""
    node = component.evaluator(
        examples=Channel(standard_artifacts.Examples),
        model=Channel(standard_artifacts.Model),
        baseline=Channel(standard_artifacts.Model),
        label=LABELS[kind].model_copy(update={"weight": weight}),
        evaluate=EvaluateConfig(slices=("hour",), **settings),
        split="test",
        rows=rows,
    )
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(directory / "evaluation"), str(directory / "blessing")
    inputs = {"examples": [examples[kind]], "model": [model]} | ({"baseline_model": [baseline]} if baseline else {})
    outputs = {"evaluation": [evaluation], "blessing": [blessing]}
    executor().Do(inputs, outputs, node.exec_properties)
    return blessing


def evaluate(directory: Path, *args: Any, **kwargs: Any) -> tuple[Evaluation, Any]:
    blessing = run(InProcess, directory, *args, **kwargs)
    evaluation = read_evaluation(directory / "evaluation")
    assert blessing.get_int_custom_property("blessed") == int(evaluation.blessed)
    assert (directory / "blessing" / ("BLESSED" if evaluation.blessed else "NOT_BLESSED")).exists()
    assert tfma.load_validation_result(str(directory / "evaluation")).validation_ok == evaluation.blessed
    return evaluation, blessing


def called(model: Any, rows: list[dict[str, float]]) -> np.ndarray:
    """The predictions of an exported model, [rows, outputs]."""
    loaded = tf.saved_model.load(str(Path(model.uri) / "Format-Serving"))
    serialized = [make_example({"hour": 0.0, **row}, missing=False) for row in rows]
    found = loaded.signatures["serving_default"](examples=tf.constant(serialized))["predictions"]
    return found.numpy().astype(np.float64).reshape(len(rows), -1)


def predictions(model: Any, data: Any) -> np.ndarray:
    return called(model, [{"a": data["a"][row]} for row in range(ROWS)])


def analyzed(data: Any, config: Any) -> tfma.EvalResult:
    """What TFMA makes of a DataFrame of labels and predictions, in a pipeline that is its own otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "Pipeline", beam_here.pipeline)
        return tfma.analyze_raw_data(data, config)
