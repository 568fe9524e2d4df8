"""The code in docs/extending.md does what the text around it says."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml

from headrace.common.errors import ModelError, TrainingError
from headrace.trainer import columns, models
from headrace.trainer.preprocessing import preprocessing_fn
from headrace.trainer.sections import TrainerSections

DOCS = Path(__file__).parents[2] / "docs" / "extending.md"
LABEL = {"key": "tip", "kind": "binary"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The config of the page, with its modules where Python finds them; afterwards nothing knows of them."""
    text = DOCS.read_text()
    for name, code in re.findall(r"```python\n# (mine/\w+\.py)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sections = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    reported = {key: value for section in sections for key, value in section.items() if key in ("features", "model")}
    yield {"label": LABEL, **reported}
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


def sparse(values: list[float | int | None], dtype: tf.DType) -> tf.SparseTensor:
    present = [(row, value) for row, value in enumerate(values) if value is not None]
    places, kept = [[row, 0] for row, _ in present], [value for _, value in present]
    return tf.SparseTensor(places, tf.constant(kept, dtype), [len(values), 1])


def test_custom_features_are_computed_and_missing_values_mean_what_the_functions_say(config: dict[str, Any]) -> None:
    raw = {
        "trip_miles": sparse([10.0, None, 3.0], tf.float32),
        "trip_seconds": sparse([1800, 60, None], tf.int64),
        "trip_start_hour": sparse([8, 12, None], tf.int64),
        "tip": sparse([1, 0, 1], tf.int64),
    }
    sections = TrainerSections.from_json(json.dumps(config))
    outputs = preprocessing_fn(raw, {"config": sections.to_json()})
    assert outputs["speed"].numpy().tolist() == [20.0, 0.0, 0.0]
    assert outputs["rush_hour"].numpy().tolist() == [1, 0, 2]
    dense = {**raw, "trip_start_hour": tf.constant([[8], [12], [-1]], tf.int64)}
    assert preprocessing_fn(dense, {"config": sections.to_json()})["rush_hour"].numpy().tolist() == [1, 0, 2]


@pytest.mark.parametrize("label", [LABEL, {"key": "tip", "kind": "multiclass", "classes": 4}])
def test_own_builder_makes_a_model_of_the_labels_width(config: dict[str, Any], label: dict[str, Any]) -> None:
    sections = TrainerSections.from_json(json.dumps(config | {"label": label}))
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0)
    model = models.build(inputs, sections.label, sections.model)
    assert len([layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]) == 3
    batch = {"speed": np.array([1.0, 2.0], np.float32), "rush_hour": np.array([0, 2])}
    assert model(batch).shape == (2, sections.label.num_classes)


WRONG = """\
import keras
import numpy as np


class Own(keras.layers.Layer):
    def call(self, x):
        return keras.ops.matmul(x, x)


def needs_images(features, label, model):
    return keras.Model(features.inputs, keras.layers.Conv2D(3, 3)(features.inputs["miles"]))


def own_layer(features, label, model):
    x = keras.layers.Reshape((1, 2))(features.inputs["place"])
    return keras.Model(features.inputs, Own()(x))


def needs_more(features, label, model):
    network = keras.Sequential([keras.layers.InputLayer((5,)), keras.layers.Dense(1)])
    return keras.Model(features.inputs, network(features.inputs["place"]))
"""


@pytest.mark.parametrize(
    ("function", "what", "line"),
    [
        ("needs_images", "expected min_ndim=4, found ndim=1", 11),
        ("own_layer", "Dimensions must be equal, but are 2 and 1", 7),
        ("needs_more", "expected shape=(None, 5), found shape=(None, 2)", 21),
    ],
)
def test_own_network_that_does_not_take_the_features_is_told_what_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, what: str, line: int
) -> None:
    (tmp_path / "wrong_networks.py").write_text(WRONG)
    monkeypatch.syspath_prepend(str(tmp_path))
    features = {"miles": {"column": "numeric"}, "place": {"column": "vector", "size": 2}}
    model = {"kind": f"wrong_networks.{function}"}
    sections = TrainerSections.from_json(json.dumps({"label": LABEL, "features": features, "model": model}))
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0)
    with pytest.raises(ModelError) as refused:
        models.build(inputs, sections.label, sections.model)
    message = str(refused.value)
    assert message.startswith(f"model.kind: wrong_networks.{function} raised ")
    assert what in message
    assert f"wrong_networks.py:{line})" in message
    assert "got the inputs `miles` float32 [batch], `place` float32 [batch, 2]. " in message
    assert message.endswith("or change the features")
    assert "\n" not in message
    assert "\x1b" not in message


def test_other_errors_of_an_own_function_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_network.py").write_text(
        "def build(features, label, model):\n"
        "    try:\n"
        "        next(iter([]))\n"
        "    except StopIteration:\n"
        "        raise KeyError('x') from None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    features = {"miles": {"column": "numeric"}}
    content = {"label": LABEL, "features": features, "model": {"kind": "broken_network.build"}}
    sections = TrainerSections.from_json(json.dumps(content))
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0)
    with pytest.raises(TrainingError, match=r"broken_network\.build raised KeyError: 'x' \(\S+:5\)$"):
        models.build(inputs, sections.label, sections.model)
