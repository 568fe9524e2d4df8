"""A training that is killed, stopped, continued and built upon, through `headrace run`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace, processes_in, started_at_once, wait_until
from parcels import write_parcels

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data:
  source: {kind: csv, path: parcels.csv}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
  hours: {column: numeric}
  carrier: {column: vocabulary}
model: {kind: wide_and_deep, hidden: [8], dropout: 0.2}
train:
  epochs: 25
  batch_size: 16
  steps_per_execution: 4
  early_stopping: null
  optimizer: {kind: adamw, weight_decay: 0.001}
  learning_rate: {schedule: cosine, initial: 0.01, warmup_steps: 50}
  clip: {global_norm: 1.0}
  checkpoint: {every_steps: 40}
  warm_start: true
evaluate: {thresholds: {auc: {min: 0.7}}}
deploy: {push: null}
"""


@dataclass
class Story:
    """The runs, by name, and the checkpoints that lay there after each."""

    folder: Path
    runs: dict[str, Finished] = field(default_factory=dict)
    kept: dict[str, list[Path]] = field(default_factory=dict)

    @property
    def checkpoints(self) -> list[Path]:
        return sorted((self.folder / "runs" / "parcels" / "checkpoints").glob("*/*.npz"))

    def keep(self, name: str, done: Finished) -> None:
        self.runs[name], self.kept[name] = done, self.checkpoints

    def log(self, name: str) -> str:
        return (self.runs[name].folder / "logs" / "Trainer.log").read_text()

    def training(self, name: str) -> dict[str, Any]:
        file = self.runs[name].uri("Trainer", "model_run") / "training.json"
        return dict(json.loads(file.read_text()))


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    one = Story(new_folder("continued"))
    write_parcels(one.folder / "parcels.csv", 1200)
    (one.folder / "parcels.yaml").write_text(CONFIG)
    going = started_at_once(one.folder, "run", "parcels.yaml")
    going.wait_for(r" Trainer +running")
    assert wait_until(lambda: len(one.checkpoints) == 2)
    going.process.send_signal(signal.SIGKILL)
    killed = going.finish()
    assert wait_until(lambda: not processes_in(one.folder))  # its Trainer ends a moment later, and writes until then
    one.keep("killed", killed)
    going = started_at_once(one.folder, "run", "parcels.yaml")
    going.wait_for(r" Trainer +running")
    assert wait_until(lambda: one.checkpoints != one.kept["killed"])
    going.process.send_signal(signal.SIGTERM)
    one.keep("stopped", going.finish())
    longer = ("--set", "train.epochs=5")
    for name, options in {"continued": (), "again": (), "longer": longer, "longer again": longer}.items():
        one.keep(name, headrace(one.folder, "run", "parcels.yaml", *options))
        assert one.runs[name].code == 0, one.runs[name].out + one.runs[name].err
    return one


def test_run_after_a_kill_resumes_from_the_last_checkpoint(story: Story) -> None:
    assert story.runs["killed"].code == -signal.SIGKILL
    assert f"checkpoint: resuming from {story.kept['killed'][-1]}" in story.log("stopped")


def test_stopped_run_writes_a_checkpoint_and_ends_as_an_interrupt_does(story: Story) -> None:
    done = story.runs["stopped"]
    assert (done.code, done.run.node("Trainer").status) == (130, "interrupted")
    last = story.kept["stopped"][-1]
    assert f"It is saved in {last}; " in story.log("stopped")
    assert story.log("stopped").splitlines()[-1].startswith("training was stopped by SIGTERM after batch ")
    assert "Traceback" not in story.log("stopped")
    assert f"checkpoint: resuming from {last}" in story.log("continued")


def test_continued_training_has_all_its_epochs_and_leaves_no_checkpoint(story: Story) -> None:
    epochs = story.training("continued")["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, 26))
    assert story.kept["continued"] == []


def test_unchanged_run_is_reused_though_its_model_is_the_latest_blessed_one(story: Story) -> None:
    assert story.runs["again"].statuses()["Trainer"] == "cached"
    assert story.runs["longer again"].statuses()["Trainer"] == "cached"


def test_changed_run_begins_with_the_weights_of_the_blessed_model(story: Story) -> None:
    words = story.training("longer")["chosen"]["warm_start"]
    assert words.startswith(f"from {story.runs['continued'].uri('Trainer', 'model')}: took ")
    assert "; not" not in words
    assert story.training("continued")["chosen"]["warm_start"].endswith("new weights")
