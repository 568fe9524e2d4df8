"""The blessed models that a run builds on: the baseline, the model that training starts from, and the newest one.

Baseline, WarmStart and RecordBlessing read or write `blessed.json`, so they run every time.
"""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tfx.components.util.model_utils import is_infra_validated, is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.blessed_model import why_unusable
from headrace.components.contents import CONTENTS, contents_of
from headrace.components.deploy.blessing import record_blessing
from headrace.components.deploy.registry import (
    AUTOMATIC,
    DAMAGED,
    EXISTS,
    MANUAL,
    WHY,
    Entry,
    MadeFor,
    NewestEntry,
    Registry,
    inside,
)
from headrace.components.schema import column_types, read_schema
from headrace.trainer.weights.sidecar import Origin, work_digest

logger = logging.getLogger(__name__)

_WAY_OUT = (
    "  Restore the files of {} from a backup. Or remove that folder: a model that is gone is not compared with, so the"
    " next candidate is judged without a baseline."
)


@component
def Baseline(  # noqa: N802, PLR0913, PLR0917
    model: InputArtifact[standard_artifacts.Model],
    schema: InputArtifact[standard_artifacts.Schema],
    baseline: OutputArtifact[standard_artifacts.Model],
    label: Parameter[str],
    registry: Parameter[str],
    push_record: Parameter[str],
) -> None:
    """Point `baseline` at the model that `model` is compared with.

    label: LabelConfig as JSON; registry: path of `blessed.json`; push_record: path of `pushed.json`.
    """
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    blessed = Registry.read(Path(registry))
    chosen = choose_baseline(blessed, model.uri, data, Path(push_record))
    found = blessed.find(chosen.uri) if chosen.uri else None
    if found is None:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
        for file, text in ((WHY, chosen.why_not), (DAMAGED, chosen.damaged)):
            if text:
                (Path(baseline.uri) / file).write_text(text, encoding="utf-8")
    _point(baseline, found)


@component
def WarmStart(  # noqa: N802, PLR0913, PLR0917
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    schema: InputArtifact[standard_artifacts.Schema],
    base: OutputArtifact[standard_artifacts.Model],
    training: Parameter[str],
    label: Parameter[str],
    registry: Parameter[str],
    push_record: Parameter[str],
) -> None:
    """Point `base` at the model whose weights training starts from, or at an empty folder if there is none.

    training: the Trainer's `custom_config` as JSON; label: LabelConfig as JSON; registry: path of `blessed.json`;
    push_record: path of `pushed.json`.
    """
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    work = work_digest(json.loads(training), transform_graph.uri)
    found = choose_base_model(Registry.read(Path(registry)), work, data, Path(push_record))
    if found is None:
        Path(base.uri).mkdir(parents=True, exist_ok=True)
    else:
        base.uri = found
    base.set_int_custom_property(EXISTS, int(found is not None))


@component
def RecordBlessing(  # noqa: N802, PLR0913, PLR0917
    model: InputArtifact[standard_artifacts.Model],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    schema: InputArtifact[standard_artifacts.Schema],
    entry: OutputArtifact[standard_artifacts.String],
    newest: OutputArtifact[standard_artifacts.Model],
    label: Parameter[str],
    columns: Parameter[str],
    registry: Parameter[str],
    push_record: Parameter[str],
    approval: Parameter[str] = AUTOMATIC,
    canary: InputArtifact[standard_artifacts.InfraBlessing] = None,
    statistics: InputArtifact[standard_artifacts.ExampleStatistics] = None,
) -> None:
    """Add `model` to the registry if it is blessed and passed its canary, and output the newest model in it.

    With manual approval, a model that was not listed before awaits it, and the newest is one that does not.

    Args:
        model: the candidate.
        blessing: the Evaluator's verdict on it.
        schema: the types of the data columns.
        entry: the newest model's entry as JSON, with paths as in the file; {} if no model is blessed yet, or if the
            newest is gone or damaged and so cannot be pushed; see NewestEntry.
        newest: that model; an empty folder if there is none.
        label: LabelConfig as JSON.
        columns: JSON list of the data columns that features read.
        registry: path of `blessed.json`.
        push_record: path of `pushed.json`.
        approval: AUTOMATIC or MANUAL.
        canary: the Canary's verdict; None if there is no canary.
        statistics: of the data that `model` was trained on; None if no gate compares with them.
    """
    path, passed = Path(registry), canary is None or is_infra_validated(canary)
    blessed = is_model_blessed(blessing) and passed
    if blessed:
        read = set(json.loads(columns))
        types = {column: type_ for column, type_ in columns_of(schema.uri).items() if column in read}
        made_for = MadeFor(label=label, columns=types)
        manual = approval == MANUAL
        record_blessing(
            path,
            model.uri,
            datetime.now(UTC),
            made_for,
            contents_of(model),
            awaits_approval=manual,
            statistics=statistics.uri if statistics else None,
        )
    listed = Registry.read(path)
    found, own = listed.newest, listed.find(model.uri) if blessed else None
    if found and found.uri != model.uri and (flaw := why_unusable(found.uri, found, None, Path(push_record))):
        logger.info(flaw.reason)
        found = None
    refused = None if passed else inside(path.parent, model.uri)
    entry.value = _newest_entry(path.parent, listed, found, own, refused).model_dump_json() if found else json.dumps({})
    # Without its checksum: Pusher compares the files itself, and reports what is in service if they are damaged.
    _point(newest, found.model_copy(update={"contents": None}) if found else None)


def _newest_entry(folder: Path, listed: Registry, newest: Entry, own: Entry | None, refused: str | None) -> NewestEntry:
    """The newest entry with what became of the run's own model. Paths are relative: absolute ones differ from pod to
    pod, and would make each run look new to whatever depends on the text. own: None if that model is not blessed;
    refused: its URI if it failed its canary.
    """
    relative = newest.with_paths(lambda uri: inside(folder, uri))
    uri = inside(folder, own.uri) if own else None
    return NewestEntry(
        **dict(relative),
        withdrawn=uri if own and own.withdrawn_at else None,
        waiting=uri if own in listed.waiting else None,
        refused=refused,
    )


class ChosenBaseline(NamedTuple):
    """The outcome of `choose_baseline`."""

    uri: str | None
    why_not: str = ""
    """Why the best predecessor was not chosen; "" if it was, or if there is none."""
    damaged: str = ""
    """Why no candidate that needs a comparison may be blessed; "" if one may."""


def choose_baseline(
    registry: Registry, candidate: str, data: MadeFor | None = None, push_record: Path | None = None
) -> ChosenBaseline:
    """The best predecessor of a candidate that still exists, is undamaged, and was made for such data.

    If the only models that would do are damaged, none is chosen, and a comparison must not pass: otherwise damage to a
    file would let any candidate replace the model in service. That does not hold for the newest model itself, which an
    unchanged run judges again, as it is the one in service. push_record: path of `pushed.json`.
    """
    why_not = damaged = ""
    in_service = registry.newest is not None and registry.newest.uri == candidate
    for uri in registry.predecessors(candidate):
        flaw = why_unusable(uri, registry.find(uri), data, push_record)
        if flaw is None:
            return ChosenBaseline(uri, why_not)
        logger.info(flaw.reason)
        why_not = why_not or flaw.reason
        if flaw.damaged and not damaged and not in_service:
            damaged = f"{flaw.reason}, and there is no other model to compare with.\n{_WAY_OUT.format(uri)}"
    return ChosenBaseline(None, why_not, damaged)


def choose_base_model(registry: Registry, work: str, data: MadeFor, push_record: Path | None = None) -> str | None:
    """The URI of the latest blessed model that still exists, is undamaged, and was made for such data.

    If the same piece of work made that model, the model that it started from: an unchanged run then finds the same base
    as the first time, and its Trainer is reused. push_record: path of `pushed.json`.
    """
    for entry in reversed(registry.models):
        if entry.withdrawn_at or entry.awaiting_approval:
            continue
        if flaw := why_unusable(entry.uri, entry, data, push_record):
            logger.info(flaw.reason)
            continue
        origin = Origin.read(Path(entry.uri) / "Format-Serving")
        if origin is None or origin.work != work:
            return entry.uri
        return origin.base if origin.base and Path(origin.base).is_dir() else None
    return None


def columns_of(schema: str) -> dict[str, str]:
    """The type of each data column, from a Schema artifact."""
    return dict(column_types(read_schema(Path(schema) / "schema.pbtxt")))


def _point(output: standard_artifacts.Model, found: Entry | None) -> None:
    """Point an output at a blessed model, with its checksum as of the blessing; at an empty folder if there is none."""
    output.set_int_custom_property(EXISTS, int(found is not None))
    if found is None:
        Path(output.uri).mkdir(parents=True, exist_ok=True)
        return
    output.uri = found.uri
    if found.contents:
        output.set_string_custom_property(CONTENTS, found.contents)
