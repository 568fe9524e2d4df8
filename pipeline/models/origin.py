"""Where a model comes from: the run that trained it, with its code, data and artifacts, from the runs' own records.

for origin in origins(config, runs):
    origin.model.commit, origin.spans[0].fingerprint, origin.artifacts["schema"].contents
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.common.digests import digest_path
from headrace.common.storage.files import FileState
from headrace.components.contents import CONTENTS
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.config import PipelineConfig
from headrace.pipeline.cache_key import KeyParts
from headrace.pipeline.code.digest import code_digest
from headrace.pipeline.models import CARD
from headrace.pipeline.models.listing import Model, list_models, model_path
from headrace.pipeline.results.record import Status
from headrace.pipeline.results.run_folder import CONFIG_FILE, RunFolder
from headrace.pipeline.run import Run
from headrace.pipeline.versions import recorded

MADE_FROM = {
    "examples": "ExampleGen",
    "statistics": "StatisticsGen",
    "schema": "SchemaGen",
    "transform_graph": "Transform",
    "model": "Trainer",
}
"""Outputs to the components that write them."""


@dataclass(frozen=True)
class SpanOrigin:
    """The data of one span as the model learned from it.

    Attributes:
        name: Such as `12` or `2026-11-20`; "" for data without spans.
        fingerprint: SHA-256, in hexadecimal digits, of the files' paths, sizes and marks.
        files: Its files, each with its size in bytes and its mark: the modification time in nanoseconds since 1970, or
            the checksum (`data.fingerprint: content`), or the ETag or generation of an object.
    """

    name: str
    fingerprint: str
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class ArtifactOrigin:
    """An artifact: its folder, which may be gone, and the checksum of its files when they were written."""

    path: Path
    contents: str | None
    exists: bool


@dataclass(frozen=True)
class Origin:
    """What a model was made from. Everything but `model` is None or empty if no record of a run with it is left.

    Attributes:
        model: The model: its versions, blessing and metrics, and the commit and dirty state of the run that trained it.
        record: The folder of the run that the rest is from: the one that trained the model, or the oldest one left that
            reused it.
        card: The model card, if one of the runs pushed the model.
        judged: The folder of the latest run that evaluated the model.
        config: The config of the run in `record`, with all overrides applied.
        config_digest: SHA-256 of that file, in hexadecimal digits.
        code_digest: A digest of what `modules` do; None if the run recorded no modules.
        modules: The modules of the Trainer and of the components before it, each with a digest of what it does.
        packages: What was installed then: distribution to version.
        fingerprint: SHA-256 of the fingerprints of all spans.
        rows: The number of examples in each split.
        left_out: Of a run on Kubeflow, what ExampleGen reported that its examples lack, as properties of the artifact.
        spans: The data, oldest first.
        artifacts: What the components wrote: examples, statistics, schema, transform_graph, model; and evaluation, the
            latest one of the model.
        started_from: Folder of the model whose weights the training started from (`train.warm_start`).
        parameters: Of a run on Kubeflow, its own values of settings of the training, over those of the config.
    """

    model: Model
    record: Path | None = None
    card: Path | None = None
    judged: Path | None = None
    config: Path | None = None
    config_digest: str | None = None
    code_digest: str | None = None
    modules: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: Mapping[str, str] = field(default_factory=dict, repr=False)
    fingerprint: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str | int] = field(default_factory=dict)
    spans: tuple[SpanOrigin, ...] = ()
    artifacts: Mapping[str, ArtifactOrigin] = field(default_factory=dict)
    started_from: Path | None = None
    parameters: Mapping[str, str | int] = field(default_factory=dict)


def origins(config: PipelineConfig, runs: Iterable[Run]) -> list[Origin]:
    """The origins of a pipeline's models, newest first.

    runs: the pipeline's runs. Raises RunError if `blessed.json` or `pushed.json` is damaged.
    """
    runs = sorted(runs, key=lambda run: (run.record.started, run.id))
    made: dict[Path, RunFolder] = {}
    judged: dict[Path, RunFolder] = {}
    for folder in (RunFolder(run.path, run.record) for run in runs):
        path = model_path(folder)
        if path is None:
            continue
        if path not in made or folder.record.node("Trainer").status is Status.DONE:
            made[path] = folder
        if folder.output("Evaluator", "evaluation"):
            judged[path] = folder
    models = list_models(config, runs)
    return [
        _origin(model, made[model.path], judged.get(model.path)) if model.path in made else Origin(model)
        for model in models
    ]


def _origin(model: Model, folder: RunFolder, judged: RunFolder | None) -> Origin:
    config, modules = folder.path / CONFIG_FILE, _modules(folder)
    examples = folder.output("ExampleGen", "examples")
    properties = examples.properties if examples else {}
    fingerprint = properties.get("input_fingerprint")
    found = {key: _artifact(folder, component, key) for key, component in MADE_FROM.items()}
    found["evaluation"] = _artifact(judged, "Evaluator", "evaluation") if judged else None
    return Origin(
        model=model,
        record=folder.path,
        card=folder.path / CARD if (folder.path / CARD).is_file() else None,
        judged=judged.path if judged else None,
        config=config if config.is_file() else None,
        config_digest=digest_path(config) if config.is_file() else None,
        code_digest=code_digest(modules.items()) if modules else None,
        modules=modules,
        packages=recorded(folder.path),
        fingerprint=None if fingerprint is None else str(fingerprint),
        rows=json.loads(str(properties.get("rows", "{}"))),
        spans=_spans(folder),
        artifacts={key: artifact for key, artifact in found.items() if artifact},
        started_from=_started_from(folder),
    )


def _modules(folder: RunFolder) -> dict[str, str]:
    """The modules of the Trainer and of everything upstream of it, as recorded with the cache keys."""
    upstream = {node.id: node.upstream for node in folder.record.nodes}
    reached, waiting = set[str](), ["Trainer"]
    while waiting:
        if (node := waiting.pop()) not in reached:
            reached.add(node)
            waiting += upstream.get(node, ())
    parts = (KeyParts.read(folder.path, node) for node in reached)
    return dict(sorted((name, digest) for each in parts if each for name, digest in each.sources.items()))


def _spans(folder: RunFolder) -> tuple[SpanOrigin, ...]:
    """The spans in the manifest that the run read; empty if the manifest is gone or damaged."""
    try:
        manifest = SpanManifest.from_json(folder.text("Spans", "spans") or "")
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return tuple(SpanOrigin(span.name, span.fingerprint, span.files) for span in manifest.spans)


def _artifact(folder: RunFolder, component: str, key: str) -> ArtifactOrigin | None:
    artifact = folder.output(component, key)
    if artifact is None:
        return None
    here, contents = folder.directory(component, key), artifact.properties.get(CONTENTS)
    return ArtifactOrigin(here or Path(artifact.uri), None if contents is None else str(contents), here is not None)


def _started_from(folder: RunFolder) -> Path | None:
    base = folder.output("WarmStart", "base")
    if base is None or not int(base.properties.get("exists", 0)):
        return None
    return folder.directory("WarmStart", "base") or Path(base.uri)
