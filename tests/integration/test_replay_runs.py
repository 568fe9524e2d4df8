"""Features that differ between training and serving: found by the canary before the model is pushed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import tensorflow as tf
from command import Finished, headrace, versions
from parcels import parcels_config, write_parcels

from headrace.components.canary.verdict import CanaryVerdict

pytestmark = pytest.mark.slow

CONFIG = parcels_config(
    "distance: {column: numeric}",
    "carrier: {column: vocabulary}",
    "cost: {column: custom, function: costs.cost, keys: [hours]}",
)
COSTS = """\
import tensorflow as tf


def hours(raw):
    column = raw["hours"]
    column = tf.sparse.reset_shape(column, tf.maximum(column.dense_shape, [0, 1]))
    return tf.sparse.to_dense(column)[:, 0]


def cost(raw):
    return hours(raw) * tf.strings.to_number(tf.io.read_file("RATE"))


def noisy(raw):
    return hours(raw) + tf.random.uniform([])
"""
AGAIN = ("--set", "deploy.canary.examples=5")
WARNED = ("--set", "deploy.canary.replay={on_difference: warn}")
NOISY = ("--set", "features.cost.function=costs.noisy", *AGAIN)
"""Each changes what the Canary depends on."""


@dataclass(frozen=True)
class Story:
    """A run with a file that a feature reads; after the file has changed; the same with a warning; with a random op."""

    folder: Path
    first: Finished
    changed: Finished
    warned: Finished
    noisy: Finished
    pushed: list[list[str]]


@pytest.fixture(scope="session")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("replay")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "parcels.yaml").write_text(CONFIG)
    rate = folder / "rate.txt"
    (folder / "costs.py").write_text(COSTS.replace("RATE", str(rate)))
    rate.write_text("2.0")
    runs, pushed = [], []
    for settings in ((), AGAIN, WARNED, NOISY):
        runs.append(headrace(folder, "run", "parcels.yaml", *settings))
        pushed.append(versions(folder))
        rate.write_text("3.0")
    first, changed, warned, noisy = runs
    return Story(folder, first, changed, warned, noisy, pushed)


def evaluated(done: Finished) -> list[float]:
    """`hours` of the test split, in the order of the shards."""
    features = [tf.train.Example.FromString(record).features.feature for record in examples_of(done, "test")]
    return [each["hours"].float_list.value[0] for each in features]


def examples_of(done: Finished, split: str) -> list[bytes]:
    """The serialized examples of a split, in the order of the shards."""
    files = sorted((done.uri("ExampleGen", "examples") / f"Split-{split}").glob("*"))
    return [record.numpy() for file in files for record in tf.data.TFRecordDataset([str(file)], "GZIP")]


def test_a_graph_that_computes_the_same_passes_and_says_how_much_was_compared(story: Story) -> None:
    rows = len(evaluated(story.first))
    assert story.first.code == 0, story.first.out
    assert story.first.ending("replay") == f"passed: 3 features of {rows} examples are as in training"
    assert len(story.pushed[0]) == 1


def test_a_sound_model_answers_as_in_the_trainers_memory(story: Story) -> None:
    verdict = CanaryVerdict.read(story.first.uri("Canary", "blessing"))
    assert verdict is not None
    assert verdict.answers is not None
    rows = len(examples_of(story.first, "eval"))
    assert (verdict.answers.split, verdict.answers.examples) == ("eval", min(rows, 128))
    assert verdict.answers.difference is not None
    assert verdict.answers.difference < 1e-5
    assert story.first.ending("answers").startswith(f"passed: {min(rows, 128)} answers match the Trainer's model")


@pytest.mark.parametrize("run", ["changed", "warned"])
def test_answers_are_not_compared_where_the_features_differ_already(story: Story, run: str) -> None:
    assert getattr(story, run).ending("answers").startswith("not compared: features differ")


def test_a_file_that_changed_refuses_the_model_and_names_the_feature(story: Story) -> None:
    rows, done = len(evaluated(story.changed)), story.changed
    assert (done.code, done.ran()) == (0, {"Canary", "Pusher"})
    assert done.ending("blessing").startswith("not blessed: canary: replay: 1 of 3 features")
    assert f"cost in {rows}" in done.ending("replay")
    assert story.pushed[1] == story.pushed[0]


def test_verdict_has_the_values_of_both_sides(story: Story) -> None:
    hours = evaluated(story.changed)
    verdict = CanaryVerdict.read(story.changed.uri("Canary", "blessing"))
    assert verdict is not None
    assert verdict.replay is not None
    (cost,) = verdict.replay.differing
    assert (cost.name, cost.rows, cost.random) == ("cost", len(hours), False)
    for row in cost.shown:
        assert float(row.transformed) == pytest.approx(2 * hours[row.row - 1], rel=1e-5)
        assert float(row.served) == pytest.approx(3 * hours[row.row - 1], rel=1e-5)


def test_report_shows_the_feature_with_what_each_side_computed(story: Story) -> None:
    verdict = CanaryVerdict.read(story.changed.uri("Canary", "blessing"))
    page = (story.folder / story.changed.ending("report")).read_text()
    assert verdict is not None
    assert verdict.replay is not None
    (cost,) = verdict.replay.differing
    assert all(f"<td>{row.transformed}</td><td>{row.served}</td>" in page for row in cost.shown)


def test_a_warning_lets_the_model_pass(story: Story) -> None:
    assert story.warned.ending("blessing").startswith("blessed")
    assert "cost in" in story.warned.ending("replay")


def test_a_random_operation_is_called_random(story: Story) -> None:
    assert story.noisy.code == 0, story.noisy.out
    assert "(random)" in story.noisy.ending("replay")
    assert story.pushed[3] == story.pushed[2]
