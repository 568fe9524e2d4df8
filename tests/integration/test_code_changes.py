"""Edits of code, the project's and the user's: what is compiled again, and what the next run is said to do and does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import Finished, headrace
from compiled_trips import invocations
from installed import Installed, install

from headrace.pipeline.kubeflow.document import version_name

pytestmark = pytest.mark.slow

NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The SHA-256 of no bytes."""
CONFIG = """\
pipeline: {name: trips}
data: {source: %s}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
  kind: {column: vocabulary, file: kinds.txt}
  double: {column: custom, function: mine.features.double, keys: [fare]}
model: {kind: mine.models.build, hidden: [4]}
train: {epochs: 1, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy: {push: null}
kubeflow: {image: "registry.example/headrace:1"}
"""
CSV, ARRAYS = "{kind: csv, path: trips.csv}", "{kind: arrays, function: mine.data.trips}"
MODULES = {
    "features.py": """\
import tensorflow as tf
from mine.units import FACTOR


def double(raw):
    fare = raw["fare"]
    dense = tf.sparse.to_dense(fare) if isinstance(fare, tf.SparseTensor) else fare
    return tf.cast(tf.reshape(dense, [-1]), tf.float32) * FACTOR
""",
    "units.py": "FACTOR = 2.0\n",
    "models.py": """\
import keras


def build(features, label, model):
    deep = keras.layers.Dense(model.hidden[0], activation="relu")(features.deep())
    return keras.Model(features.inputs, keras.layers.Dense(1, activation="sigmoid")(deep))
""",
    "data.py": """\
def trips():
    fares = [float(row % 40) for row in range(400)]
    return {"fare": fares, "kind": ["ab"[row % 2] for row in range(400)], "tip": [int(fare > 20) for fare in fares]}
""",
}


def write(folder: Path, source: str) -> Path:
    """A user's folder."""
    (folder / "mine").mkdir(parents=True, exist_ok=True)
    for name, text in MODULES.items():
        (folder / "mine" / name).write_text(text)
    rows = [f"{row % 40}.5,{'ab'[row % 2]},{int(row % 40 > 20)}\n" for row in range(400)]
    (folder / "trips.csv").write_text("".join(["fare,kind,tip\n", *rows]))
    (folder / "kinds.txt").write_text("a\nb\n")
    (folder / "trips.yaml").write_text(CONFIG % source)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@dataclass
class Compiled:
    """The texts that the installed command compiled, one after each step."""

    texts: dict[str, str] = field(default_factory=dict)

    def reported(self, name: str) -> dict[str, Any]:
        """The invocation of each component's pod."""
        return {task.id: task for task in invocations(next(yaml.safe_load_all(self.texts[name]))).values()}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("compiled")
    project, mine = install(folder, editable=True), write(folder / "folder", ARRAYS)
    made = Compiled()

    def compile_(name: str) -> None:
        made.texts[name] = project.headrace("compile", "trips.yaml", cwd=mine).stdout

    compile_("first")
    edit_program(project, mine)
    compile_("edited")
    return made


def edit_program(project: Installed, mine: Path) -> None:
    edit(project.sources / "components" / "gates" / "data_rules.py", "\n\n\n", "\n\n_ADDED = 1\n\n\n")
    edit(mine / "mine" / "units.py", "2.0", "3.0")
    edit(mine / "mine" / "models.py", '"relu"', '"tanh"')
    edit(mine / "mine" / "data.py", "> 20", "> 21")


def test_compiled_digests_are_of_code_and_differ(compiled: Compiled) -> None:
    assert NOTHING not in compiled.texts["first"]
    reported = compiled.reported("first").values()
    modules = {task.executor.partition(":")[0] for task in reported}
    assert len({task.code for task in reported}) == len(modules) == 10


def test_edit_of_the_projects_and_of_the_users_code_changes_what_is_compiled_of_the_components_that_use_it(
    compiled: Compiled,
) -> None:
    first, edited = compiled.reported("first"), compiled.reported("edited")
    changed = {id_ for id_ in first if first[id_].to_json() != edited[id_].to_json()}
    assert changed == {"Spans", "DataGate", "Transform", "Trainer"}
    assert first["DataGate"].code != edited["DataGate"].code
    assert first["Spans"].exec_properties["code"] != edited["Spans"].exec_properties["code"]
    for id_ in ("Transform", "Trainer"):
        before, now = (json.loads(reported[id_].exec_properties["custom_config"]) for reported in (first, edited))
        assert before.pop("sources") != now.pop("sources")
        assert before == now
    names = {version_name("trips", compiled.texts[name]) for name in ("first", "edited")}
    assert len(names) == 2  # so `submit` finds no version of before, and no run of it


@dataclass
class Situation:
    """What `explain-cache --next` said, and what the run after it did."""

    said: dict[str, dict[str, Any]]
    done: Finished

    def ran(self) -> set[str]:
        """The components that may be reused and were not."""
        return {id_ for id_, status in self.done.statuses().items() if status == "done"} - {
            id_ for id_, one in self.said.items() if one["result"] == "always runs"
        }


def remove_transformed(folder: Path) -> None:
    shutil.rmtree(max((folder / "runs").glob("trips/artifacts/Transform/transformed_examples/*")))  # the newest


UP_TO_EXAMPLES = {"ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate"}
JUDGED = {"Trainer", "Evaluator"}
# Back at the first model, the Evaluator compares it with the other, which was blessed in between.
SITUATIONS: dict[str, tuple[Callable[[Path], None], tuple[str, ...], set[str]]] = {
    "nothing changed": (lambda _: None, (), set()),
    "a comment in a module": (lambda f: edit(f / "mine/models.py", "def", "# Ours.\ndef"), (), set()),
    "the model's function": (lambda f: edit(f / "mine/models.py", "relu", "tanh"), (), JUDGED),
    "the model's function as it was": (lambda f: edit(f / "mine/models.py", "tanh", "relu"), (), {"Evaluator"}),
    "a setting of training": (lambda _: None, ("--set", "train.epochs=2"), JUDGED),
    "a setting of the evaluation": (lambda _: None, ("--set", "evaluate.metrics=[auc,precision]"), {"Evaluator"}),
    "what a feature's function imports": (
        lambda f: edit(f / "mine/units.py", "2.0", "3.0"),
        (),
        {"Transform", *JUDGED},
    ),
    "a vocabulary": (lambda f: edit(f / "kinds.txt", "b\n", "b\nc\n"), (), {"Transform", *JUDGED}),
    "outputs that are gone": (remove_transformed, (), {"Transform", *JUDGED}),
    "a new row": (
        lambda f: edit(f / "trips.csv", "tip\n", "tip\n7.5,a,0\n"),
        (),
        {*UP_TO_EXAMPLES, "Transform", *JUDGED},
    ),
    "TFRecords": (lambda _: None, ("--set", "transform.materialize=always"), {"Transform", *JUDGED}),
}
WORDS = {"would be reused": "cached", "would run": "done", "always runs": "done", "not run": "skipped"}


@pytest.fixture(scope="module")
def situations(new_folder: Callable[[str], Path]) -> dict[str, Situation]:
    folder = write(new_folder("situations"), CSV)
    assert headrace(folder, "run", "trips.yaml").code == 0
    reported = {}
    for name, (change, options, _) in SITUATIONS.items():
        change(folder)
        said = headrace(folder, "explain-cache", "trips.yaml", "--next", "--json", *options)
        assert said.code == 0, said.err
        done = headrace(folder, "run", "trips.yaml", *options)
        assert done.code == 0, done.out + done.err
        reported[name] = Situation({one["component"]: one for one in json.loads(said.out)["components"]}, done)
    return reported


@pytest.mark.parametrize("name", SITUATIONS)
def test_next_run_does_what_was_said_of_it(situations: dict[str, Situation], name: str) -> None:
    situation = situations[name]
    assert situation.ran() == SITUATIONS[name][2]
    assert {id_: WORDS[one["result"]] for id_, one in situation.said.items()} == situation.done.statuses()
    assert not [line for one in situation.said.values() for line in one["reasons"] if "removed" in line]


def test_changed_code_is_reported_by_its_module(situations: dict[str, Situation]) -> None:
    assert situations["the model's function"].said["Trainer"]["reasons"] == ["code mine.models: changed"]
    assert situations["what a feature's function imports"].said["Transform"]["reasons"] == ["code mine.units: changed"]
