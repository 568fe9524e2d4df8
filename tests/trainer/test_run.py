"""run_fn on examples that real TFT wrote: it learns, stops, keeps the best epoch, and says what happened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainings import train_alone

from headrace.common.errors import TrainingError
from headrace.trainer.input.inputs import plan_inputs
from headrace.trainer.model import build_model
from headrace.trainer.run import run_fn

Prepare = Callable[[str], Any]


def trained(prepared: Any, folder: Path, model: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """training.json of a training into the folder, without an export."""
    return train_alone(prepared.fn_args(folder, model, **settings))


def exported(prepared: Any, folder: Path, **train: Any) -> dict[str, Any]:
    """training.json of a whole run into the folder."""
    run_fn(prepared.fn_args(folder, **train))
    return json.loads((folder / "run" / "training.json").read_text())


def best_model(prepared: Any, folder: Path) -> keras.Model:
    """The model with the weights that the run kept."""
    model = build_model(prepared.sections(), prepared.output)
    model.load_weights(folder / "run" / "best.weights.h5")
    return model


def labels(prepared: Any, split: str) -> np.ndarray:
    key = prepared.sections().label.key
    return np.array([row[key][0] for row in prepared.rows[split]])


def entropy(values: np.ndarray) -> float:
    """The loss of predicting each class's share, which is the best without looking at the features."""
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(shares * np.log(shares)).sum())


@pytest.fixture(scope="module")
def learned(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and training.json of a training with all defaults."""
    folder = tmp_path_factory.mktemp("learned")
    return folder, trained(prepared("binary"), folder)


def test_wide_and_deep_model_learns_far_below_the_entropy_of_its_label(
    prepared: Prepare, learned: tuple[Path, dict[str, Any]]
) -> None:
    data, (_, record) = prepared("binary"), learned
    assert data.sections().model.kind == "wide_and_deep"
    best = record["epochs"][record["best_epoch"] - 1]["metrics"]
    assert entropy(labels(data, "eval")) > 0.69
    assert best["val_loss"] < 0.4  # a label that is wrong once in twenty, with some colors missing, leaves about 0.27
    assert best["val_auc"] > 0.9


def test_multiclass_model_learns_far_below_the_entropy_of_its_label(prepared: Prepare, tmp_path: Path) -> None:
    record = trained(prepared("multiclass"), tmp_path)
    best = record["epochs"][record["best_epoch"] - 1]["metrics"]
    assert best["val_loss"] < 0.3 * entropy(labels(prepared("multiclass"), "eval"))
    assert best["val_accuracy"] > 0.9


def test_regression_model_learns_far_below_the_variance_of_its_label(prepared: Prepare, tmp_path: Path) -> None:
    record = trained(prepared("regression"), tmp_path, epochs=20)
    best = record["epochs"][record["best_epoch"] - 1]["metrics"]
    assert best["val_loss"] < 0.15 * labels(prepared("regression"), "eval").var()  # areas missing once in twenty


def test_record_and_line_say_what_each_epoch_did(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    record = trained(prepared("binary"), tmp_path, epochs=2)
    assert [epoch["epoch"] for epoch in record["epochs"]] == [1, 2]
    assert set(record["epochs"][0]["metrics"]) == {
        prefix + name for name in ("loss", "auc", "binary_accuracy") for prefix in ("", "val_")
    }
    assert all(epoch["seconds"] > 0 and epoch["examples_per_second"] > 0 for epoch in record["epochs"])
    assert record["examples"] == {"train": 2000, "eval": 500}
    assert record["parameters"] == build_model(prepared("binary").sections(), prepared("binary").output).count_params()
    assert record["stopped_early"] is False
    assert "they stay in memory" in record["input"]
    lines = log.messages
    assert lines[0] == f"input: {record['input']}"
    metrics = record["epochs"][1]["metrics"]
    (last,) = (line for line in lines if line.startswith("epoch 2/2"))
    assert last.startswith(f"epoch 2/2: loss {metrics['loss']:.4g}, val_loss {metrics['val_loss']:.4g}, auc ")
    assert last.endswith(" examples/s")
    (remark,) = record["remarks"]
    assert lines[-1] == remark
    assert "still falling in the last of 2 epochs" in remark


def with_labels_flipped(pattern: str, label: str, target: Path) -> str:
    """A copy of the transformed examples whose binary labels are the other class."""
    with tf.io.TFRecordWriter(str(target), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for record in tf.data.TFRecordDataset(tf.io.gfile.glob(pattern), compression_type="GZIP").as_numpy_iterator():
            example = tf.train.Example.FromString(record)
            feature = example.features.feature[label]
            value = getattr(feature, feature.WhichOneof("kind")).value
            value[:] = [1 - value[0]]
            writer.write(example.SerializeToString())
    return str(target)


@pytest.fixture(scope="module")
def worsened(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and training.json of a run whose eval loss rises, as its labels say the contrary, with its export."""
    data, folder = prepared("binary"), tmp_path_factory.mktemp("worsened")
    fn_args = data.fn_args(folder, epochs=8, learning_rate=0.003, early_stopping=None)
    fn_args.eval_files = [with_labels_flipped(data.patterns["eval"], "bought", folder / "flipped.gz")]
    run_fn(fn_args)
    return folder, json.loads((folder / "run" / "training.json").read_text())


def test_exported_weights_are_those_of_the_epoch_with_the_lowest_eval_loss(
    prepared: Prepare, worsened: tuple[Path, dict[str, Any]]
) -> None:
    data, (folder, record) = prepared("binary"), worsened
    losses = [epoch["metrics"]["val_loss"] for epoch in record["epochs"]]
    assert len(losses) == 8
    assert record["best_epoch"] == int(np.argmin(losses)) + 1
    assert losses[-1] > min(losses) + 0.3  # the more it learns, the worse it is
    served = tf.saved_model.load(str(folder / "Format-Serving")).signatures["serving_default"]
    predictions = served(examples=tf.constant(data.serialized["eval"]))["predictions"].numpy()[:, 0]
    flipped = 1 - labels(data, "eval")
    loss = -np.log(np.clip(np.where(flipped == 1, predictions, 1 - predictions), 1e-7, 1)).mean()
    assert loss == pytest.approx(min(losses), rel=1e-4)


def test_early_stopping_waits_for_its_patience_after_the_best_epoch(prepared: Prepare, tmp_path: Path) -> None:
    early = {"patience": 3, "min_delta": 0.0}
    record = trained(prepared("binary"), tmp_path, epochs=60, learning_rate=0.1, early_stopping=early)
    assert record["stopped_early"] is True
    assert len(record["epochs"]) == record["best_epoch"] + 3


def test_early_stopping_does_not_count_falls_below_min_delta(prepared: Prepare, tmp_path: Path) -> None:
    early = {"patience": 2, "min_delta": 100.0}
    record = trained(prepared("binary"), tmp_path, early_stopping=early)
    losses = [epoch["metrics"]["val_loss"] for epoch in record["epochs"]]
    assert len(losses) == 3  # the first epoch, and two that are not better by 100
    assert record["best_epoch"] == int(np.argmin(losses)) + 1


def test_same_seed_gives_the_same_weights_and_another_seed_others(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")

    def weights(name: str, seed: int) -> list[np.ndarray]:
        trained(data, tmp_path / name, {"dropout": 0.1}, epochs=2, seed=seed)
        return best_model(data, tmp_path / name).get_weights()

    first, again, other = weights("first", 5), weights("again", 5), weights("other", 6)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-3)  # threads may add up in another order
    assert any(np.abs(one - two).max() > 0.1 for one, two in zip(first, other, strict=True))


def test_model_learns_as_well_without_the_cache(
    prepared: Prepare, tmp_path: Path, learned: tuple[Path, dict[str, Any]]
) -> None:
    records = [learned[1], trained(prepared("binary"), tmp_path, input={"cache": "none"})]
    lowest = [min(epoch["metrics"]["val_loss"] for epoch in record["epochs"]) for record in records]
    assert abs(lowest[0] - lowest[1]) < 0.05
    assert [record["examples"] for record in records] == [{"train": 2000, "eval": 500}] * 2
    assert "they stay in memory" in records[0]["input"]
    assert "read and parsed in every epoch" in records[1]["input"]


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_steps_per_epoch_are_the_optimizers_steps(prepared: Prepare, tmp_path: Path, cache: str) -> None:
    record = trained(prepared("binary"), tmp_path, epochs=2, steps_per_epoch=70, input={"cache": cache})
    assert len(record["epochs"]) == 2
    assert record["examples"]["train"] == 70 * 64


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "the 2,000 examples "),
        ({"input": {"cache": "none"}}, "the roughly 2,000 examples "),
    ],
)
def test_batch_larger_than_the_split_trains_and_is_said(
    prepared: Prepare, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    record = trained(prepared("binary"), tmp_path, epochs=1, batch_size=4096, **settings)
    (remark,) = record["remarks"]
    assert remark.startswith(f"batch_size 4,096 is more than {said}")
    assert record["input"].endswith("; " + remark)


def test_batch_larger_than_the_split_of_an_endless_training_has_examples_several_times(prepared: Prepare) -> None:
    data = prepared("binary")
    sections = data.sections(batch_size=4096, steps_per_epoch=2)
    inputs = plan_inputs([data.patterns["train"]], [data.patterns["eval"]], data.output, sections).open(sections.train)
    assert inputs.remarks[0].startswith("batch_size 4,096 is more than the 2,000 examples ")


def test_loss_that_is_not_a_number_stops_with_epoch_and_steps(prepared: Prepare, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"(nan|inf) in steps 1 to 32 of epoch \d") as caught:
        exported(prepared("regression"), tmp_path, optimizer="sgd", learning_rate=1e12)
    assert "Lower `train.learning_rate`" in str(caught.value)
    assert not (tmp_path / "Format-Serving").exists()


def test_split_without_files_is_refused(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    with pytest.raises(TrainingError, match="the eval split has no files"):
        plan_inputs([data.patterns["train"]], [str(tmp_path / "*")], data.output, data.sections())


def test_tensorboard_logs_hold_every_epochs_metrics(learned: tuple[Path, dict[str, Any]]) -> None:
    trained_in, record = learned
    assert len(record["epochs"]) >= 3
    for folder, prefix in (("train", ""), ("validation", "val_")):
        (file,) = (trained_in / "run" / folder).glob("events.out.tfevents.*")
        written: dict[str, list[float]] = {}
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if value.tag.startswith("weights/"):
                    continue
                assert value.metadata.plugin_data.plugin_name == "scalars" or event.step > 0
                written.setdefault(value.tag, []).append(float(tf.make_ndarray(value.tensor)))
        for name in ("loss", "auc"):
            expected = [epoch["metrics"][prefix + name] for epoch in record["epochs"]]
            np.testing.assert_allclose(written[f"epoch_{name}"], expected, rtol=1e-6)


def test_weights_beside_the_saved_model_are_those_of_the_best_epoch(
    prepared: Prepare, worsened: tuple[Path, dict[str, Any]]
) -> None:
    data, (folder, _) = prepared("binary"), worsened
    model = build_model(data.sections(), data.output)
    model.load_weights(folder / "Format-Serving" / "assets.extra" / "model.weights.h5")
    for one, two in zip(model.get_weights(), best_model(data, folder).get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


OWN_MODEL = """
import keras
import tensorflow as tf

class Counting(keras.Model):
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def train_step(self, data):
        self.seen.assign_add(tf.cast(tf.shape(data[1])[0], tf.float32))
        return super().train_step(data)

def build(features, label, model):
    return Counting(features.inputs, keras.layers.Dense(1, activation="sigmoid")(features.deep()))
"""


def test_own_model_with_a_train_step_is_trained_by_it(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_model_for_run.py").write_text(OWN_MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = {"kind": "own_model_for_run.build"}
    record = trained(prepared("binary"), tmp_path, kind, epochs=2, learning_rate=0.01, early_stopping=None)
    model = build_model(prepared("binary").sections(kind), prepared("binary").output)
    model.load_weights(tmp_path / "run" / "best.weights.h5")
    assert float(model.seen) == 2000 * record["best_epoch"]


@pytest.mark.slow
def test_stock_trainer_executor_calls_run_fn_by_its_path(prepared: Prepare, tmp_path: Path) -> None:
    from tfx.components.trainer.executor import GenericExecutor
    from tfx.types import artifact_utils, standard_artifacts

    data = prepared("binary")
    examples, graph, schema, model, run = (
        kind() for kind in (standard_artifacts.Examples, standard_artifacts.TransformGraph, standard_artifacts.Schema,
                            standard_artifacts.Model, standard_artifacts.ModelRun)
    )  # fmt: skip
    examples.uri = str(Path(data.patterns["train"]).parent.parent)
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    graph.uri = data.fn_args(tmp_path).transform_output
    schema.uri = f"{graph.uri}/metadata"
    model.uri, run.uri = str(tmp_path / "model"), str(tmp_path / "model_run")
    GenericExecutor().Do(
        {"examples": [examples], "transform_graph": [graph], "schema": [schema]},
        {"model": [model], "model_run": [run]},
        {"run_fn": "headrace.trainer.run.run_fn", "train_args": "{}", "eval_args": "{}", "module_path": None,
         "custom_config": json.dumps({"config": data.sections(epochs=2).to_json()})},
    )  # fmt: skip
    assert json.loads((tmp_path / "model_run" / "training.json").read_text())["examples"]["train"] == 2000
    assert (tmp_path / "model" / "Format-Serving" / "saved_model.pb").exists()
