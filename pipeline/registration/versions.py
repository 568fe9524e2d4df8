"""What a model registry learns of `deploy.push`: its versions, with their states, and where each model comes from.

shelf = local_shelf(config, runs)
shelf.states                             # {1795402861: "in_service", 1795316462: "superseded"}
shelf.describe(1795402861).metrics       # {"auc": 0.9471}
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from headrace.common import yaml_text
from headrace.components.stored_models.stored_versions import shown
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.model_registry import filled
from headrace.pipeline.folders import Folders
from headrace.pipeline.models import CARD
from headrace.pipeline.models.card import MARKDOWN
from headrace.pipeline.models.destination import Destination
from headrace.pipeline.models.listing import Model
from headrace.pipeline.models.origin import Origin, origins
from headrace.pipeline.report.training import TrainingHistory, read_training
from headrace.pipeline.run import Run
from headrace.pipeline.share.runs import PublicFolder
from headrace.pipeline.share.settings import flattened

State = Literal["in_service", "superseded", "withdrawn", "removed"]
"""Of a version: the highest number in `deploy.push`; a lower one; one whose model a rollback took out of service; one
that is no longer there (`deploy.keep`)."""
PREFIX = "headrace."
_SECTIONS = ("label", "features", "model", "train", "evaluate")
"""The sections of the config whose settings are a model's hyperparameters."""
_MOST_SETTINGS = 200

Curve = tuple[str, int, float]
"""A metric of the training, the epoch, and the value."""


@dataclass(frozen=True)
class PushedVersion:
    """One version of `deploy.push`.

    Attributes:
        number: Its number there.
        model: URI of the Model artifact.
        source: URI of the version's folder, or the path of one on this machine.
        state: What it is there.
        run: Id of the run that trained the model; None if its record is gone.
        trained: When that run started.
        metrics: Finite metrics over the evaluated split.
        facts: Where the model comes from, by names without PREFIX.
        settings: The run's settings by dotted names, without credentials.
        curves: The metrics of the training after each epoch.
        folder: The version's folder if it is on this machine.
        cards: The files of the model card, if there are any.
    """

    number: int
    model: str
    source: str
    state: State
    run: str | None = None
    trained: dt.datetime | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    curves: Sequence[Curve] = ()
    folder: Path | None = None
    cards: Sequence[Path] = ()

    @property
    def description(self) -> str:
        """One line for people."""
        by = f"trained by run {self.run}" if self.run else "trained by a run whose record is gone"
        return f"Version {self.number} of {self.facts.get('pipeline', 'the pipeline')}, {by}."


@dataclass(frozen=True)
class Shelf:
    """All of `deploy.push`.

    Attributes:
        destination: What identifies the folder: `deploy.registry.source`, its URI, or its path on this machine.
        states: The state of each version that runs of this pipeline pushed.
        describe: Returns a version by its number. It reads the records of the runs, of all of them once.
    """

    destination: str
    states: Mapping[int, State]
    describe: Callable[[int], PushedVersion]


def local_shelf(config: PipelineConfig, runs: Callable[[], Sequence[Run]]) -> Shelf | None:
    """The folder `deploy.push` on this machine; None if it is null.

    runs: returns the pipeline's runs. Raises RunError if `blessed.json` or `pushed.json` is damaged.
    """
    if config.push_directory is None:
        return None
    there = Destination.read(Folders.of(config), config.push_directory)
    given = config.deploy.registry and config.deploy.registry.source
    at = filled(given, config.pipeline.name).rstrip("/") if given else shown(there.path)
    pushed = {number: uri for number in there.versions if (uri := there.model_of(str(number))) is not None}
    states = {
        number: state_of(number, there.versions, withdrawn=_withdrawn(there, uri)) for number, uri in pushed.items()
    }

    @functools.cache
    def known() -> dict[str, Origin]:
        return {str(origin.model.path): origin for origin in origins(config, runs())}

    def describe(number: int) -> PushedVersion:
        uri = pushed[number]
        return _described(number, uri, states[number], known().get(uri), at, there, config.pipeline.name)

    return Shelf(at, states, describe)


def state_of(number: int, numbers: Collection[int], *, withdrawn: bool) -> State:
    """The state of a version. numbers: all that are in `deploy.push`."""
    if number == max(numbers):
        return "in_service"
    return "withdrawn" if withdrawn else "superseded"


def facts_of(origin: Origin, pipeline: str, number: int, more: Mapping[str, str | None]) -> dict[str, str]:
    """What every registry says of a version, without what is not known."""
    model, spans = origin.model, origin.model.spans
    found = {
        "pipeline": pipeline,
        "version": str(number),
        "run": model.run,
        "trained_at": model.trained.isoformat(timespec="seconds") if model.trained else None,
        "blessed_at": model.blessed_at.isoformat(timespec="seconds") if model.blessed_at else None,
        "commit": f"{model.commit}{'+dirty' * model.dirty}" if model.commit else None,
        "spans": f"{' to '.join(dict.fromkeys((spans[0], spans[-1])))} ({len(spans)})" if spans else None,
        "config_digest": origin.config_digest,
        "code_digest": origin.code_digest,
        "data_fingerprint": origin.fingerprint,
        **{f"rows.{split}": str(count) for split, count in origin.rows.items()},
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def finite(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}


def _withdrawn(there: Destination, uri: str | None) -> bool:
    entry = there.registry.find(uri) if uri else None
    return entry is not None and entry.withdrawn_at is not None


def _described(
    number: int, uri: str, state: State, origin: Origin | None, at: str, there: Destination, pipeline: str
) -> PushedVersion:
    origin = origin or Origin(Model(Path(uri)))
    model, made = origin.model, PublicFolder.read(origin.record) if origin.record else None
    base = None if origin.started_from is None else str(origin.started_from)
    training = read_training(made.directory("Trainer", "model_run")) if made else None
    return PushedVersion(
        number=number,
        model=uri,
        source=f"{at}/{number}",
        state=state,
        run=model.run,
        trained=model.trained,
        metrics=finite(model.metrics),
        facts=facts_of(origin, pipeline, number, {"model": uri, "started_from": base}),
        settings=_settings(made) if made else {},
        curves=_curves(training) if training else (),
        folder=there.versions[number],
        cards=[file for name in (MARKDOWN, CARD) if origin.record and (file := origin.record / name).is_file()],
    )


def _settings(made: PublicFolder) -> dict[str, str]:
    try:
        tree = yaml_text.parse(made.config_text)
    except yaml.YAMLError:
        return {}
    chosen = {name: tree[name] for name in _SECTIONS if isinstance(tree, dict) and tree.get(name)}
    given = [(name, value) for name, value in flattened(chosen).items() if value != "null"]
    return dict(given[:_MOST_SETTINGS])


def _curves(training: TrainingHistory) -> list[Curve]:
    return [
        (name, epoch.epoch, value)
        for epoch in training.epochs
        for name, value in epoch.metrics.items()
        if math.isfinite(value)
    ]
