"""What a run builds on: the baseline, the model that training starts from, and the newest blessed model.

The components of baseline.py are thin layers over the functions that take artifacts here: TFX's, or others that have
the same methods (pipeline/local/light.py). Their parameters are the inputs, outputs and parameters of the component,
which both pass by name. Imports no TFX.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from headrace.components.contents import CONTENTS, contents_of
from headrace.components.deploy.lite_files import converted
from headrace.components.schema import column_types, read_schema
from headrace.components.spans.split_spans import TRAINED_ON, RoleOfSpans
from headrace.components.stored_models.blessed_record import (
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
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.usable import why_unusable
from headrace.trainer.weights.sidecar import TrainingOrigin, work_digest

logger = logging.getLogger(__name__)

Artifact = Any
"""An artifact of TFX, or one with its methods."""

_WAY_OUT = (
    "  Restore the files of {} from a backup. Or remove that folder: a model that is gone is not compared with, so the"
    " next candidate is judged without a baseline."
)


def find_baseline(
    *, model: Artifact, schema: Artifact, baseline: Artifact, label: str, registry: str, push_record: str
) -> None:
    """What the component Baseline does; its arguments are documented there."""
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    blessed = Registry.read(Path(registry))
    chosen = choose_baseline(blessed, model.uri, data, Path(push_record))
    found = blessed.find(chosen.uri) if chosen.uri else None
    if found is None:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
        for file, text in ((WHY, chosen.why_not), (DAMAGED, chosen.damaged)):
            if text:
                (Path(baseline.uri) / file).write_text(text, encoding="utf-8")
    point(baseline, found)


def find_base_model(  # noqa: PLR0913
    *,
    transform_graph: Artifact,
    schema: Artifact,
    base: Artifact,
    training: str,
    label: str,
    registry: str,
    push_record: str,
    split_spans: str = "",
    spans: Artifact | None = None,
) -> None:
    """What the component WarmStart does; its arguments are documented there."""
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    work = work_digest(json.loads(training), transform_graph.uri)
    roles = RoleOfSpans.of_component(split_spans, spans)
    found = choose_base_model(Registry.read(Path(registry)), work, data, Path(push_record), roles)
    if found is None:
        Path(base.uri).mkdir(parents=True, exist_ok=True)
    else:
        base.uri = found
    base.set_int_custom_property(EXISTS, int(found is not None))


def list_blessed(  # noqa: PLR0913
    *,
    model: Artifact,
    blessing: Artifact,
    schema: Artifact,
    entry: Artifact,
    newest: Artifact,
    label: str,
    columns: str,
    registry: str,
    push_record: str,
    approval: str = AUTOMATIC,
    canary: Artifact | None = None,
    split_spans: str = "",
    spans: Artifact | None = None,
    statistics: Artifact | None = None,
) -> None:
    """What the component RecordBlessing does; its arguments are documented there."""
    path, passed = Path(registry), canary is None or _blesses(canary)
    blessed = _blesses(blessing) and passed
    if blessed:
        read = set(json.loads(columns))
        types = {column: type_ for column, type_ in columns_of(schema.uri).items() if column in read}
        trained_on = RoleOfSpans.of_component(split_spans, spans).trained_on
        made_for = MadeFor(label=label, columns=types, trained_on=trained_on)
        manual = approval == MANUAL
        record_blessing(
            path,
            model.uri,
            datetime.now(UTC),
            made_for,
            contents_of(model),
            awaits_approval=manual,
            statistics=statistics.uri if statistics else None,
            lite=converted(canary.uri) if canary else None,
        )
    listed = Registry.read(path)
    found, own = listed.newest, listed.find(model.uri) if blessed else None
    if found and found.uri != model.uri and (flaw := why_unusable(found.uri, found, None, Path(push_record))):
        logger.info(flaw.reason)
        found = None
    refused = None if passed else inside(path.parent, model.uri)
    entry.value = _newest_entry(path.parent, listed, found, own, refused).model_dump_json() if found else json.dumps({})
    # Without its checksum: Pusher compares the files itself, and reports what is in service if they are damaged.
    point(newest, found.model_copy(update={"contents": None}) if found else None)


def _blesses(blessing: Artifact) -> bool:
    """As TFX's `is_model_blessed` and `is_infra_validated`."""
    return bool(blessing.get_int_custom_property("blessed") == 1)


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


def choose_base_model(
    registry: Registry,
    work: str,
    data: MadeFor,
    push_record: Path | None = None,
    roles: RoleOfSpans = RoleOfSpans(),  # noqa: B008 - immutable
) -> str | None:
    """The URI of the latest blessed model that still exists, is undamaged, and was made for such data.

    If the same piece of work made that model, the model that it started from: an unchanged run then finds the same base
    as the first time, and its Trainer is reused. push_record: path of `pushed.json`; roles: the spans that the run
    holds out, from which the model must not have learned.
    """
    for entry in reversed(registry.models):
        if entry.withdrawn_at or entry.awaiting_approval:
            continue
        if flaw := why_unusable(entry.uri, entry, data, push_record):
            logger.info(flaw.reason)
            continue
        if entry.made_for and (why := roles.why_not_base(entry.made_for.trained_on)):
            logger.info(f"training does not start from the blessed model {entry.uri}: {why}")
            continue
        origin = TrainingOrigin.read(Path(entry.uri) / "Format-Serving")
        if origin is None or origin.work != work:
            return entry.uri
        return origin.base if origin.base and Path(origin.base).is_dir() else None
    return None


def columns_of(schema: str) -> dict[str, str]:
    """The type of each data column, from a Schema artifact."""
    return dict(column_types(read_schema(Path(schema) / "schema.pbtxt")))


def point(output: Artifact, found: Entry | None) -> None:
    """Point an output at a blessed model, with its checksum as of the blessing; at an empty folder if there is none."""
    output.set_int_custom_property(EXISTS, int(found is not None))
    if found is None:
        Path(output.uri).mkdir(parents=True, exist_ok=True)
        return
    output.uri = found.uri
    if found.made_for and found.made_for.trained_on:
        output.set_string_custom_property(TRAINED_ON, json.dumps(found.made_for.trained_on))
    if found.contents:
        output.set_string_custom_property(CONTENTS, found.contents)
