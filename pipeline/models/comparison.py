"""Runs or versions side by side: their metrics, and what differs in settings, data and code.

found = compare_runs(config, runs, ["20261121-030004", "1795402861"])
found.metrics["auc"], found.settings["train.epochs"]     # one value for each
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.evaluation.result import Interval, Intervals, Metrics
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.cache_key import KeyParts
from headrace.pipeline.folders import Folders
from headrace.pipeline.models.listing import Model, list_models
from headrace.pipeline.run import Run
from headrace.pipeline.share.runs import PublicFolder, SharedRun
from headrace.pipeline.share.settings import differing, rows
from headrace.pipeline.versions import recorded

_FEWEST = 2
_DIGITS = 12
"""Digits of a digest that are shown."""

Values = tuple[str | None, ...]
"""One value for each of what is compared; None where there is none."""


@dataclass(frozen=True)
class Comparison:
    """Runs side by side. Each tuple has one value for each of `names`.

    Attributes:
        pipeline: Its name.
        names: What was compared, as it was given.
        runs: The ids of the runs.
        metrics: All metrics over the evaluated split, by their names in the config.
        intervals: The 95% confidence intervals of those that have any.
        settings: The settings that differ, by dotted name, without credentials.
        data: Spans, fingerprint, rows of each split, and on how many examples of which split the metrics are.
        code: The Git commit, and the packages and modules that differ, with versions and digests. Modules are those of
            components that all runs got to. Runs on Kubeflow keep one digest of all modules, `code`.
    """

    pipeline: str
    names: tuple[str, ...]
    runs: tuple[str, ...]
    metrics: Mapping[str, tuple[float | None, ...]]
    settings: Mapping[str, Values]
    data: Mapping[str, Values]
    code: Mapping[str, Values]
    intervals: Mapping[str, tuple[Interval | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of what is compared: a run, and the latest metrics of its model.

    code: a digest of what all modules of the training do, if the run did not record each of them.
    """

    run: SharedRun
    metrics: Metrics
    intervals: Intervals = field(default_factory=dict)
    code: str | None = None


def compare_runs(config: PipelineConfig, runs: Sequence[Run], names: Sequence[str]) -> Comparison:
    """Compare runs of a pipeline, each named by its id or by a version that holds the model that it trained.

    runs: the pipeline's runs. Raises RunError for fewer than two names, or for a name that stands for no run.
    """
    require_several(names, _choices(runs))
    models = list_models(config, runs)
    sides = [_side(_wanted(config, runs, models, name), models, number) for number, name in enumerate(names)]
    return side_by_side(names, sides)


def require_several(names: Sequence[str], choices: str) -> None:
    """Raise RunError for fewer than two names. choices: the end of the message, with the runs that there are."""
    if len(names) < _FEWEST:
        raise RunError(f"name at least two runs or versions to compare{choices}")


def _require_different(names: Sequence[str], runs: Sequence[str]) -> None:
    for place, (name, run) in enumerate(zip(names, runs, strict=True)):
        if run not in runs[:place]:
            continue
        other = names[runs.index(run)]
        what = f"{name} is named twice" if name == other else f"{other} and {name} are the model of one run, {run}"
        raise RunError(f"{what}; name different runs or versions to compare")


def side_by_side(names: Sequence[str], sides: Sequence[Side]) -> Comparison:
    """Compare what was named. sides: one for each name. Raises RunError if two names stand for the same run."""
    _require_different(names, [side.run.folder.record.run_id for side in sides])
    metrics = dict.fromkeys(metric for side in sides for metric in side.metrics)
    settings = [side.run.used for side in sides]
    return Comparison(
        pipeline=sides[0].run.folder.record.pipeline,
        names=tuple(names),
        runs=tuple(side.run.folder.record.run_id for side in sides),
        metrics={metric: tuple(side.metrics.get(metric) for side in sides) for metric in metrics},
        settings={row.name: row.values for row in differing(settings)},
        data={row.name: row.values for row in rows([_data(side.run) for side in sides])},
        code=_code(sides),
        intervals={
            metric: tuple(side.intervals.get(metric) for side in sides)
            for metric in metrics
            if any(metric in side.intervals for side in sides)
        },
    )


def _wanted(config: PipelineConfig, runs: Iterable[Run], models: Iterable[Model], name: str) -> Run:
    by_id = {run.id: run for run in runs}
    if name in by_id:
        return by_id[name]
    path = _pushed(config, name) if name.isdecimal() else None
    if path is None:
        raise RunError(
            f"{name} is neither a run of this pipeline nor a version that a run here pushed{_choices(by_id)}"
        )
    trained = next((model.run for model in models if model.path == path), None)
    if trained is None:
        raise RunError(f"the record of the run that trained version {name} is gone{_choices(by_id)}")
    return by_id[trained]


def _pushed(config: PipelineConfig, version: str) -> Path | None:
    """The model of a version, even of one that `deploy.keep` removed."""
    if config.push_directory is None:
        return None
    folders = Folders.of(config)
    record = PushRecord.read(folders.push_record)
    uri = record.model_of(folders.push_record, folders.pushed(config.push_directory) / version)
    return Path(uri) if uri else None


def _choices(runs: Iterable[Run | str]) -> str:
    found = [run if isinstance(run, str) else run.id for run in runs]
    return choices(found, "headrace models")


def choices(runs: Sequence[str], lister: str) -> str:
    """A second line of messages: the ids of the runs that there are. lister: the command that lists the versions."""
    return f".\n  Runs, newest first: {join_names(list(runs)) if runs else 'none'}; `{lister}` lists the versions."


def _side(run: Run, models: Iterable[Model], number: int) -> Side:
    folder = PublicFolder(run.path, run.record)
    if folder.evaluation is not None:
        return Side(SharedRun(folder, run.id, number), folder.evaluation.metrics, folder.evaluation.intervals)
    later = next((model.metrics for model in models if model.run == run.id), {})  # of a run that resumed this one
    return Side(SharedRun(folder, run.id, number), dict(later))


def _data(run: SharedRun) -> dict[str, str]:
    """What the run read. Spans, fingerprint and rows are those that ExampleGen wrote down."""
    artifact, evaluation = run.folder.output("ExampleGen", "examples"), run.folder.evaluation
    properties = artifact.properties if artifact else {}
    found: dict[str, str] = {}
    if spans := tuple(json.loads(str(properties.get("spans", "{}")))):
        found["spans"] = " to ".join(dict.fromkeys((spans[0], spans[-1]))) + f" ({len(spans)})"
    if fingerprint := properties.get("input_fingerprint"):
        found["fingerprint"] = str(fingerprint)[:_DIGITS]
    for split, number in json.loads(str(properties.get("rows", "{}"))).items():
        found[f"rows of {split}"] = f"{number:,}"
    if evaluation is not None:
        found["evaluated on"] = f"{evaluation.example_count:,} of {evaluation.split}"
    return found


def _code(sides: Sequence[Side]) -> dict[str, Values]:
    runs = [side.run for side in sides]
    records = [run.folder.record for run in runs]
    commits = tuple(f"{one.commit}{'+dirty' * one.dirty}" if one.commit else None for one in records)
    digests = {"code": tuple(side.code[:_DIGITS] if side.code else None for side in sides)}
    modules = {row.name: row.values for row in differing(_modules(runs))}
    packages = {f"package {row.name}": row.values for row in differing([recorded(run.folder.path) for run in runs])}
    return {"commit": commits, **(digests if any(digests["code"]) else {}), **modules, **packages}


def _modules(runs: Sequence[SharedRun]) -> list[dict[str, str]]:
    """The modules of each run to a digest of their meaning, as recorded with the cache keys: of the components that all
    runs got to, since a run that stopped before its training says nothing of the code that trains.
    """
    recorded_parts = [_key_parts(run) for run in runs]
    common = set.intersection(*(set(parts) for parts in recorded_parts))
    found = [
        {name: digest for node in sorted(common) for name, digest in parts[node].sources.items()}
        for parts in recorded_parts
    ]
    return [{f"module {name}": digest[:_DIGITS] for name, digest in sorted(one.items())} for one in found]


def _key_parts(run: SharedRun) -> dict[str, KeyParts]:
    """The parts of the cache keys of the components that a run got to, by component."""
    nodes = [node.id for node in run.folder.record.nodes]
    return {node: parts for node in nodes if (parts := KeyParts.read(run.folder.path, node))}
