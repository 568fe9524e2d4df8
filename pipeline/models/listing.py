"""The models of a pipeline on this machine, from the records of its runs, blessings and pushes.

for model in list_models(config, runs):
    model.versions, model.in_service, model.blessed, model.metrics["auc"]
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import MANUAL, Entry, Registry
from headrace.components.stored_models.stored_versions import shown
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.models.destination import Destination
from headrace.pipeline.report.training import read_searches
from headrace.pipeline.results.record import Status, spans_of
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.run import Run

logger = logging.getLogger(__name__)

AnyModel = TypeVar("AnyModel", bound="Model")
_START = dt.datetime.fromtimestamp(0, dt.UTC)


@dataclass(frozen=True)
class Model:
    """One trained model. Times are in UTC.

    Attributes:
        path: Folder of the Model artifact, which may be gone; that of the version if no run here pushed it.
        run: Id of the run that trained it; None if that run's record is gone.
        trained: When that run started.
        commit: Git commit of the config's folder at that time; None outside of a repository.
        dirty: Whether a tracked file there differed from the commit.
        blessed: The latest verdict on it; None if it was not evaluated.
        blessed_at: When it was blessed last, restored by a rollback, or promoted; None if it never was.
        withdrawn_at: When a rollback took it out of service; None if it may be in service.
        awaiting_approval: Whether it is blessed, newer than the model in service, and not pushed until a person
            promotes it.
        canary: Why the latest canary of it failed; empty if it passed, or if there was none.
        lite: What the latest conversion of it for LiteRT came to; None if there was none.
        metrics: Metrics over the evaluated split, by their names in the config; empty if it was not evaluated.
        spans: The spans of data that it was trained on, oldest first; empty if the data has no spans.
        tuned: The settings that a search chose, by dotted name: the Tuner's, or those of `model.kind: auto`.
        versions: The version numbers under which `deploy.push` holds it, ascending.
        in_service: Whether one of them is the highest number there, the version that model servers load.
    """

    path: Path
    run: str | None = None
    trained: dt.datetime | None = None
    commit: str | None = None
    dirty: bool = False
    blessed: bool | None = None
    blessed_at: dt.datetime | None = None
    withdrawn_at: dt.datetime | None = None
    awaiting_approval: bool = False
    canary: tuple[str, ...] = ()
    lite: LiteVerdict | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    spans: tuple[str, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[int, ...] = ()
    in_service: bool = False


def list_models(config: PipelineConfig, runs: Iterable[Run]) -> list[Model]:
    """The models of a pipeline, newest first by training; those whose runs are gone come last.

    runs: the pipeline's runs. Raises RunError if `blessed.json` or `pushed.json` is damaged.
    """
    folders = Folders.of(config)
    found = _trained(runs)
    for entry in Registry.read(folders.registry).models:
        path = Path(entry.uri)
        found[path] = with_entry(found.get(path) or Model(path, blessed=True), entry)
    if config.push_directory is not None:
        there = Destination.read(folders, config.push_directory)
        if there.moved_from:
            logger.warning("no run here pushed what is in %s: %s", shown(there.path), there.moved_from)
        _add_versions(found, there)
        for entry in there.waiting(manual=config.deploy.approval == MANUAL):
            model = found[Path(entry.uri)]
            waits = model.blessed is not False and model.path.is_dir()
            found[model.path] = replace(model, awaiting_approval=waits)
    order = sorted(found.values(), key=lambda model: (model.trained or _START, model.blessed_at or _START))
    return order[::-1]


def model_path(folder: RunFolder) -> Path | None:
    """The folder of the model that a run trained or reused, which may be gone; None if it did not get that far."""
    artifact = folder.output("Trainer", "model")
    return None if artifact is None else folder.directory("Trainer", "model") or folder.place(artifact.uri)


def _trained(runs: Iterable[Run]) -> dict[Path, Model]:
    """The models of runs. Later runs overrule earlier ones, except on who trained a model."""
    found: dict[Path, Model] = {}
    for run in sorted(runs, key=lambda run: (run.record.started, run.id)):
        folder = RunFolder(run.path, run.record)
        path = model_path(folder)
        if path is not None:
            found[path] = _judged(found.get(path) or Model(path), run, folder)
    return found


def _judged(model: Model, run: Run, folder: RunFolder) -> Model:
    record = run.record
    if model.run is None and record.node("Trainer").status is Status.DONE:
        model = replace(model, run=run.id, trained=run.started, commit=record.commit, dirty=record.dirty)
    if (search := read_searches(folder)) is not None and search.best is not None:
        model = replace(model, tuned=search.best.words)
    if spans := spans_of(record):
        model = replace(model, spans=spans)
    if (evaluation := folder.evaluation) is None:
        return model
    failed = folder.canary.reasons if folder.canary else ()
    found = dict(evaluation.metrics)
    return replace(model, blessed=folder.blessed, canary=failed, lite=folder.lite, metrics=found)


def with_entry(model: AnyModel, entry: Entry) -> AnyModel:
    """The model with what the list of blessed models says of it."""
    return replace(model, blessed_at=_time(entry.blessed_at), withdrawn_at=_time(entry.withdrawn_at))


def _time(text: str | None) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(text or "")
    except ValueError:  # none, or not a time in a list that was written by hand
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def _add_versions(found: dict[Path, Model], there: Destination) -> None:
    """Add the pushed versions to their models. One that no run here pushed becomes a model of its own."""
    for number, folder in sorted(there.versions.items()):
        path = Path(there.model_of(folder.name) or folder)
        model = found.get(path) or Model(path)
        found[path] = replace(model, versions=(*model.versions, number), in_service=number == max(there.versions))
