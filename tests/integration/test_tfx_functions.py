"""TFX's own taxi template by the config of docs/tfx_functions.md, in a folder with nothing but that file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml
from command import ROOT, Finished, headrace

pytestmark = pytest.mark.slow

OWN = """
from tfx.experimental.templates.taxi.models.keras_model import constants, model

constants.HIDDEN_UNITS = [4]
run_fn = model.run_fn
"""


@dataclass(frozen=True)
class Story:
    """The config's run, the same again, and one with another run_fn."""

    folder: Path
    first: Finished
    second: Finished
    edited: Finished


@pytest.fixture(scope="session")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("tfx_functions")
    page = (ROOT / "docs" / "tfx_functions.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n# taxi.yaml\n(.*?)```", page, re.DOTALL)
    (folder / "taxi.yaml").write_text(text, encoding="utf-8")
    first, second = headrace(folder, "run", "taxi.yaml"), headrace(folder, "run", "taxi.yaml")
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    return Story(folder, first, second, headrace(folder, "run", "taxi.yaml", "--set", "model.run_fn=own.run_fn"))


def test_the_example_of_the_page_runs_is_blessed_and_pushed(story: Story) -> None:
    assert (story.first.code, story.first.err) == (0, "")
    assert story.first.ending("blessing").startswith("blessed: binary_accuracy is 0.")
    assert story.first.ending("pushed").startswith("serving/taxi/")


def test_a_second_run_reuses_everything(story: Story) -> None:
    assert (story.second.code, story.second.ran()) == (0, set())


def test_another_run_fn_starts_at_the_trainer_and_is_compared_with_the_blessed_model(story: Story) -> None:
    assert story.edited.code == 0, story.edited.out
    assert {"Trainer", "Evaluator"} <= story.edited.ran()
    assert story.edited.ran().isdisjoint({"ExampleGen", "StatisticsGen", "DataGate", "Transform"})
    assert "(baseline: 0." in story.edited.out


def test_the_pushed_model_predicts_as_it_was_evaluated_and_loads_in_the_v1_loader(story: Story) -> None:
    pushed = str(story.folder / story.first.ending("pushed"))
    examples = story.first.uri("ExampleGen", "examples") / "Split-test"
    records = [record.numpy() for record in tf.data.TFRecordDataset([str(file) for file in examples.glob("*")], "GZIP")]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.loader.load(session, ["serve"], pushed).signature_def

        def call(name: str, output: str) -> list[float]:
            found = signatures[name]
            fed = {found.inputs["examples"].name: records}
            values: list[float] = session.run(found.outputs[output].name, fed).reshape(-1).tolist()
            return values

        labels, predictions = call("transform_features", "tips_xf"), call("serving_default", "outputs")
    right = [(probability > 0.5) == bool(label) for label, probability in zip(labels, predictions, strict=True)]
    told = float(story.first.ending("blessing").split()[3].rstrip(";,"))
    assert sum(right) / len(right) == pytest.approx(told, abs=1e-4)


def test_new_data_is_predicted_by_its_signature(story: Story) -> None:
    shards = story.first.uri("ExampleGen", "examples") / "Split-test"
    version = str(story.folder / story.first.ending("pushed"))
    given = ("--input", f"{shards}/data_tfrecord-*", "--columns", "tips,fare", "-o", "scored.parquet")
    done = headrace(story.folder, "predict", "taxi.yaml", "--model", version, *given)
    assert done.code == 0, done.err
    files = sorted(str(file) for file in shards.glob("*"))
    records = [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP")]
    expected = tf.saved_model.load(version).signatures["serving_default"](examples=tf.constant(records))["outputs"]
    table = pq.read_table(story.folder / "scored.parquet")
    names = ["tips", "fare", "prediction", "probability_0", "probability_1"]
    assert table.column_names == names
    np.testing.assert_allclose(table["probability_1"].to_numpy(), expected.numpy().reshape(-1), rtol=0, atol=1e-6)


def test_the_report_names_both_functions_and_needs_no_curves(story: Story) -> None:
    page = (story.folder / story.first.ending("report")).read_text(encoding="utf-8")
    config = yaml.safe_load((story.folder / "taxi.yaml").read_text(encoding="utf-8"))
    features = page[page.index('<section id="features">') :]
    assert config["features"]["function"] in features
    assert config["model"]["run_fn"] in features
    assert 'id="training"' not in page


def test_compiled_for_kubeflow_the_trainer_calls_the_function_and_offers_no_epochs(story: Story) -> None:
    done = headrace(story.folder, "compile", "taxi.yaml", "-o", "taxi.kfp.yaml", "--set", "kubeflow.image=any")
    assert done.code == 0, done.err
    text = (story.folder / "taxi.kfp.yaml").read_text(encoding="utf-8")
    compiled = next(iter(yaml.safe_load_all(text)))
    assert "templates.taxi.models.keras_model.model.run_fn" in text
    assert {"epochs", "steps_per_epoch"}.isdisjoint(compiled["root"]["inputDefinitions"]["parameters"])
