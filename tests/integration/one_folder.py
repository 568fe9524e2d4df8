"""One folder over its life: killed, interrupted, finished, run again after edits to config, code and data.

story = tell(folder)
assert story.runs["killed"].code == -signal.SIGKILL

The tests of what comes of it are in test_one_folder.py.
"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from command import Finished, Going, headrace, outputs_on_disk, processes_in, started_at_once, versions, wait_until
from parcels import write_parcels

CONFIG = """\
pipeline: {name: parcels}
data:
  source: {kind: csv, path: parcels.csv}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
  carrier: {column: vocabulary}
  pace: {column: custom, function: mine.features.pace, keys: [distance, hours]}
  noise: {column: numeric}
model: {kind: mine.models.build, hidden: [16]}
train: {epochs: 4, batch_size: 64, learning_rate: 0.01}
evaluate:
  metrics: [auc, binary_accuracy]
  slices: [carrier]
  thresholds:
    auc: {min: 0.85, not_worse_than_baseline_by: 0.2}
deploy: {push: serving, canary: null}
"""

FEATURES = '''\
"""Features of our own."""
import time
from pathlib import Path

import tensorflow as tf

from mine.numbers import UNIT


def pace(raw):
    """Hours for a kilometre."""
    while Path("slow").exists():
        time.sleep(0.05)
    hours, distance = (tf.sparse.to_dense(raw[key])[:, 0] for key in ("hours", "distance"))
    return tf.math.divide_no_nan(hours * UNIT, distance)
'''

MODELS = """\
import keras


def build(features, label, model):
    hidden = keras.layers.Dense(model.hidden[0], activation="relu")(features.deep())
    return keras.Model(features.inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
"""

BROKEN = FEATURES.replace(
    "    hours, distance", '    raise ValueError(f"no pace for {sorted(raw)}")\n    hours, distance'
)

DATA_NODES = {"ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate"}
MODEL_NODES = {"Trainer", "Evaluator", "Pusher"}


@dataclass
class Story:
    """What each run left, by name; each went on in the folder of the one before."""

    folder: Path
    runs: dict[str, Finished] = field(default_factory=dict)
    versions: dict[str, list[str]] = field(default_factory=dict)
    """What had been pushed when the run of that name ended."""
    outputs: dict[str, set[Path]] = field(default_factory=dict)
    """Which output folders there were then."""
    seen: dict[str, object] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "runs" / "parcels"

    def run(self, name: str, *options: str) -> None:
        self.keep(name, headrace(self.folder, "run", "parcels.yaml", *options))

    def keep(self, name: str, done: Finished) -> None:
        self.runs[name] = done
        self.versions[name] = versions(self.folder)
        self.outputs[name] = outputs_on_disk(self.home)

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def tell(folder: Path) -> Story:
    """All of it, in an empty folder."""
    one = Story(folder)
    write_parcels(one.folder / "parcels.csv", 1500, noise=True)
    (one.folder / "parcels.yaml").write_text(CONFIG)
    (one.folder / "mine").mkdir()
    (one.folder / "mine" / "features.py").write_text(FEATURES)
    (one.folder / "mine" / "models.py").write_text(MODELS)
    (one.folder / "mine" / "numbers.py").write_text("UNIT = 1.0\n")
    for name in ("trainer", "configs", "queue"):  # must not be taken for ours, nor for Python's own
        (one.folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    _stop_while_starting(one)
    _kill_and_interrupt(one)
    _break_and_mend(one)
    _edit(one)
    return one


def _stop_while_starting(one: Story) -> None:
    going = Going(one.folder, "run", "parcels.yaml")
    going.wait_for("parcels  run ")
    going.process.send_signal(signal.SIGTERM)
    one.keep("stopped early", going.finish())
    one.seen["all gone after the stop"] = _all_gone(one)


def _kill_and_interrupt(one: Story) -> None:
    (one.folder / "slow").touch()
    going = Going(one.folder, "run", "parcels.yaml")
    _until_transform_writes(one, going)
    one.seen["processes of the killed"] = len(processes_in(one.folder))
    going.process.send_signal(signal.SIGKILL)
    one.keep("killed", going.finish())
    one.seen["all gone after the kill"] = _all_gone(one)

    going = started_at_once(one.folder, "run", "parcels.yaml")
    _until_transform_writes(one, going)
    one.seen["second command"] = Going(one.folder, "run", "parcels.yaml", PYTHONPROFILEIMPORTTIME="1").finish()
    for _ in range(2):  # an impatient user
        going.signal(signal.SIGINT)
        time.sleep(0.02)
    done = going.finish()
    one.seen["all gone after the interrupt"] = _all_gone(one)
    one.keep("interrupted", done)
    (one.folder / "slow").unlink()


def _until_transform_writes(one: Story, going: Going) -> None:
    going.wait_for(r" Transform +running")
    assert wait_until(lambda: len([*one.home.glob("artifacts/Transform/*/*")]) == 2)  # both of its outputs
    assert wait_until(lambda: _says_running(max(one.home.glob("runs/*/run.json")), "Transform"))  # flushed a bit later


def _says_running(record: Path, component: str) -> bool:
    nodes = json.loads(record.read_text(encoding="utf-8"))["nodes"]
    return any(node["id"] == component and node["status"] == "running" for node in nodes)


def _all_gone(one: Story) -> bool:
    """Whether no process is left, but for the moment that a killed one takes to go. Transform alone would never end."""
    return wait_until(lambda: not processes_in(one.folder))


def _break_and_mend(one: Story) -> None:
    (one.folder / "mine" / "features.py").write_text(BROKEN)
    one.run("broken")
    (one.folder / "mine" / "features.py").write_text(FEATURES)
    one.run("mended")


def _edit(one: Story) -> None:
    one.edit("mine/models.py", "import keras\n", "# Ours.\nimport keras  # version 3\n\n")
    one.edit("mine/features.py", "Hours for a kilometre.", "How slow it is.")
    one.run("comments")
    one.run("epochs", "--set", "train.epochs=3")
    one.edit("mine/models.py", '"relu"', '"tanh"')
    one.run("model edited")
    one.edit("mine/numbers.py", "1.0", "1.5")
    one.run("number edited")
    text = (one.folder / "parcels.csv").read_text()
    (one.folder / "parcels.csv").write_text(text)
    only_noise = "{column: numeric, key: noise, normalize: none}"
    dull = [f"features.{name}={only_noise}" for name in ("distance", "carrier", "pace")]
    one.run("dull", *(part for value in dull for part in ("--set", value)))
