"""From a model back to what it was made from, and from a span or a file forward to every model that it touched.

lineage(config, runs, None).origins[0].model.commit             # of the model in service
[origin.model.run for origin in lineage(config, runs, "2026-11-20").origins]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.models.listing import Model, model_path
from headrace.pipeline.models.origin import Origin, SpanOrigin, origins
from headrace.pipeline.predict.models import SAVED_MODEL
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.run import Run

_MOST_SPANS = 10
"""Spans that a message lists."""


@dataclass(frozen=True)
class Lineage:
    """The answer about one model, span or file.

    Attributes:
        name: What it is about: a version, the id of a run, a folder, a span or a file.
        kind: Which of them it is.
        files: The names of the file: as given, absolute, and with links resolved; empty if it is about something else.
        origins: The model's origin; or those of all models that the span or file touched, newest first. A model whose
            training started from a touched model is touched too.
        home: Of runs on Kubeflow, the URI of the pipeline's folder, which all paths are relative to; None on this
            machine.
    """

    name: str
    kind: Literal["model", "span", "file"]
    origins: tuple[Origin, ...]
    files: tuple[str, ...] = ()
    home: str | None = None

    def is_in(self, span: SpanOrigin) -> bool:
        """Whether a span is the one that this is about, or has the file."""
        return span.name == self.name if self.kind == "span" else any(file.path in self.files for file in span.files)

    def read_for(self, origin: Origin) -> bool:
        """Whether the model itself learned from it. The names of spans are known even if their manifest is gone."""
        named = self.kind == "span" and self.name in origin.model.spans
        return named or any(map(self.is_in, origin.spans))


def lineage(config: PipelineConfig, runs: Sequence[Run], name: str | None) -> Lineage:
    """The lineage of a model, span or file.

    runs: the pipeline's runs; name: a pushed version, the id of a run that has a model, the folder of a model or
    version, a span, or the path of a source file, in this order of precedence; None for the model in service, or else
    the newest one. Raises RunError if there is no model yet, or none that has to do with `name`.
    """
    known = origins(config, runs)
    if not known:
        raise RunError(f"no run of {config.pipeline.name} here has trained a model yet; `headrace run` trains one")
    if name is None:
        found = next((origin for origin in known if origin.model.in_service), known[0])
        return Lineage(name_of(found.model), "model", (found,))
    path = _model(config, runs, name)
    model = next((origin for origin in known if origin.model.path == path), None)
    if model:
        return Lineage(name, "model", (model,))
    return forward(known, name)


def forward(known: Sequence[Origin], name: str) -> Lineage:
    """The models that a span or a file touched. known: all models. Raises RunError if there are none."""
    local = Path(name).expanduser()
    paths = (name, str(local.absolute()), str(local.resolve()))
    for about in (Lineage(name, "span", ()), Lineage(name, "file", (), paths)):
        if touched := _touched(known, about):
            return replace(about, origins=touched)
    raise RunError(
        f"{name} is not a version, run, span or source file of any recorded model.\n"
        f"  {_spans_in(known)}; `headrace models` lists the versions and runs."
    )


def name_of(model: Model) -> str:
    """What a model is called: its newest version, else its run, else its path."""
    versions = [str(version) for version in model.versions[-1:]]
    return next(iter([*versions, *filter(None, [model.run])]), str(model.path))


def _model(config: PipelineConfig, runs: Sequence[Run], name: str) -> Path | None:
    """The folder of the model that a version, the id of a run, or a folder stands for."""
    folders, given = Folders.of(config), Path(name).absolute()
    run = next((run for run in runs if run.id == name), None)
    if run is not None:
        return model_path(RunFolder(run.path, run.record))
    pushed = folders.pushed(config.push_directory) if config.push_directory else None
    version = pushed / name if pushed and name.isdecimal() else given
    uri = PushRecord.read(folders.push_record).model_of(folders.push_record, version)
    if uri:
        return Path(uri)
    if name.isdecimal():
        return version
    return given.parent if (given / SAVED_MODEL).is_file() and given.parent != pushed else given


def _touched(known: Sequence[Origin], about: Lineage) -> tuple[Origin, ...]:
    """The models that learned from it, and those whose training started from one of these, however indirectly."""
    found = {origin.model.path for origin in known if about.read_for(origin)}
    while more := {origin.model.path for origin in known if origin.started_from in found} - found:
        found |= more
    return tuple(origin for origin in known if origin.model.path in found)


def _spans_in(known: Sequence[Origin]) -> str:
    # Numbers have no leading zeros, and dates have the same length.
    names = {name for origin in known for name in origin.model.spans}
    spans = sorted(names, key=lambda name: (len(name), name), reverse=True)
    if not spans:
        return "The data has no spans; name a file as `headrace lineage CONFIG` lists it"
    more = f" and {len(spans) - _MOST_SPANS:,} more" if len(spans) > _MOST_SPANS else ""
    return f"Spans, newest first: {join_names(spans[:_MOST_SPANS])}{more}"
