"""Runs as a training leaves them, with names that try to break out of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import yaml

from headrace.components.evaluation.result import Evaluation, SliceMetrics, write_evaluation
from headrace.components.profile.result import ProfileDiagnosis, SettingChange, TimeShares
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.versions import write_versions
from headrace.trainer.callbacks.tensorboard import Scalars
from headrace.trainer.trials import Search

START = 1_700_000_000.0
EVIL = "</script><script>alert(1)</script>"
EVIL_VALUE = "\"><img src=x onerror=alert(2)> it's"
CONFIG: dict[str, Any] = {
    "pipeline": {"name": "taxi"},
    "data": {"source": {"kind": "csv", "path": "x.csv"}, "splits": {"train": 3, "eval": 1}},
    "label": {"key": "big_tipper", "kind": "binary"},
    "features": {"hour": {"column": "identity", "num_buckets": 6}, "evil": {"column": "numeric", "key": EVIL}},
    "model": {"kind": "dnn", "hidden": [128, 64]},
    "train": {"epochs": 3, "learning_rate": 0.001},
    "evaluate": {"slices": ["hour", "company"]},
}
VERDICT = ProfileDiagnosis(
    steps=47,
    first_step=48,
    step_seconds=0.00576,
    split=TimeShares(input=0.78, host=0.03, compute=0.188, idle=0.002),
    input_bound=0.78,
    cause="examples are read and parsed again in every epoch",
    changes=(SettingChange("train.input.cache", "memory", EVIL, 0.74),),
)


class Pipeline:
    """`<root>/taxi`, to which runs are added."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "taxi"

    def add(  # noqa: PLR0917
        self,
        run_id: str,
        config: dict[str, Any] | None = None,
        shift: float = 0.0,
        logs: list[dict[str, float]] | None = None,
        trained: bool = True,
        evaluated: bool = True,
        search: Search | None = None,
        seconds: list[float] | None = None,
        started: float = START,
    ) -> Path:
        """A run with three epochs (or those of `logs`), each of this many seconds; returns its folder."""
        folder = self.home / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG | (config or {}), sort_keys=False))
        write_versions(folder)
        record = RunRecord(run_id, "taxi", "configs/taxi.yaml", started, started + 20, Status.DONE)
        if trained:
            directory = self._output(record, "Trainer", "model_run")
            train(directory, logs or epochs(shift))
            if seconds:
                reported = [{"epoch": epoch, "seconds": each} for epoch, each in enumerate(seconds, 1)]
                (directory / "training.json").write_text(json.dumps({"epochs": reported}))
        if evaluated:
            write_evaluation(self._output(record, "Evaluator", "evaluation"), evaluation(shift))
            (self._output(record, "ProfileVerdict", "verdict") / "value").write_text(VERDICT.model_dump_json())
        if search is not None:
            best = self._output(record, "Tuner", "best_hyperparameters") / "best_hyperparameters.txt"
            best.write_text(json.dumps({"headrace": {"search": search.to_plain()}}))
        record.write(folder)
        return folder

    def _output(self, record: RunRecord, node: str, key: str) -> Path:
        directory = self.home / "artifacts" / node / key / record.run_id
        directory.mkdir(parents=True)
        record.nodes.append(NodeRecord(node, [], Status.DONE, outputs={key: ArtifactRecord("T", str(directory))}))
        return directory


def epochs(shift: float) -> list[dict[str, float]]:
    return [
        {
            "loss": 1 / n + shift,
            "val_loss": 0.8 / n + shift,
            "auc": 1 - 0.3 / n,
            "val_auc": 0.9 - 0.2 / n,
            EVIL: 1.0 * n,
        }
        for n in (1, 2, 3)
    ]


def evaluation(shift: float) -> Evaluation:
    return Evaluation(
        split="eval",
        example_count=100,
        unlabelled=0,
        metrics={"auc": 0.9 - shift, "binary_crossentropy": 0.4 + shift, "precision": None},
        baseline=None,
        slices=(
            SliceMetrics("hour = 1", {"auc": 0.8, "binary_crossentropy": 0.5}, 40, None),
            SliceMetrics("hour = 2", {"auc": 0.7 + shift, "binary_crossentropy": 0.6}, 60, None),
            SliceMetrics(f"company = {EVIL_VALUE}", {"auc": 0.95, "binary_crossentropy": 0.1}, 50, None),
            SliceMetrics("company = ", {"auc": 0.96, "binary_crossentropy": 0.09}, 5, None),
            SliceMetrics(f"company = {'long ' * 40}{'x' * 200}", {"auc": 0.97, "binary_crossentropy": 0.08}, 5, None),
        ),
        checks=(),
        blessed=True,
        reasons=(),
        curves=None,
    )


def train(directory: Path, logs: list[dict[str, float]]) -> None:
    """Write logs as the Trainer does, of a model whose weights change."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, name="first"), keras.layers.Dense(1)])
    callback = Scalars(directory)
    callback.set_model(model)
    for epoch, metrics in enumerate(logs):
        model.layers[0].kernel.assign_add(np.random.default_rng(epoch).normal(size=(4, 8)))
        callback.on_epoch_end(epoch, metrics)
    callback.on_train_end()
    profile = directory / "train" / "plugins" / "profile" / "1" / "host.xplane.pb"
    profile.parent.mkdir(parents=True)
    profile.write_bytes(b"a profile")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "runs")


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], list[Path]]:
    """Two runs that differ, made once."""
    made: list[Path] = []

    def runs() -> list[Path]:
        if not made:
            pipeline = Pipeline(tmp_path_factory.mktemp("two"))
            changed = {"model": {"kind": "dnn", "hidden": [32]}, "train": {"epochs": 3, "learning_rate": 0.01}}
            made.append(pipeline.add("20260101-000000", seconds=[3.0, 1.0, 1.0]))
            made.append(pipeline.add("20260102-000000", changed, 0.1, seconds=[2.0, 2.0, 2.0]))
        return made

    return runs
