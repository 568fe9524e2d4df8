"""Runs or versions of a pipeline on Kubeflow side by side, from what the runs left in the object store.

found = compare_stored(config, store, ["8f3a51c0-...", "1795402861"])
found.metrics["auc"], found.settings["train.epochs"]     # one value for each
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_lineage import Origins, choose
from headrace.pipeline.kubeflow.stored_models import StoredHome, StoredModel, by_age
from headrace.pipeline.kubeflow.stored_run import StoredRun, StoredRuns
from headrace.pipeline.models.comparison import Comparison, Side, choices, require_several, side_by_side
from headrace.pipeline.share.runs import SharedRun


def compare_stored(config: PipelineConfig, store: Store, names: Sequence[str]) -> Comparison:
    """Compare runs on Kubeflow, each named by its id, by a version that holds the model that it trained, or by the
    model's URI.

    Raises RunError for fewer than two names, for a name that stands for no model, or if a record is damaged; OSError if
    the store fails.
    """
    uri = home_uri(config)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        home = StoredHome(uri, config.push_directory, store, Path(folder))
        models = by_age(home.models())
        require_several(names, _choices(models))
        runs = StoredRuns(home, Origins(home, len(models)), Path(folder, "runs"))
        found = [runs.read(_wanted(models, home, uri, name)) for name in names]
        return side_by_side(names, [_side(run, number) for number, run in enumerate(found)])


def _wanted(models: Sequence[StoredModel], home: StoredHome, uri: str, name: str) -> StoredModel:
    model = choose(models, home, uri, name)
    if model is None:
        raise RunError(
            f"{name} is neither a run on Kubeflow that trained a model nor a version that one pushed{_choices(models)}"
        )
    if model.run is None:
        raise RunError(f"no run of this pipeline pushed version {name}{_choices(models)}")
    return model


def _choices(models: Sequence[StoredModel]) -> str:
    return choices([model.run for model in models if model.run], "headrace models --kubeflow")


def _side(run: StoredRun, number: int) -> Side:
    evaluation = run.folder.evaluation
    return Side(
        SharedRun(run.folder, run.folder.record.run_id, number),
        evaluation.metrics if evaluation else {},
        evaluation.intervals if evaluation else {},
        code=run.origin.code_digest,
    )
