"""What a candidate is compared with, and the record of the models that passed."""

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.contents import CONTENTS, contents_of
from headrace.components.intact import flaw_of
from headrace.components.registry import DAMAGED, WHY, Entry, MadeFor, Registry, inside
from headrace.components.schema import column_types, read_schema
from headrace.configs.lock import alone

EXISTS = "exists"
"""Custom property of the baseline: 1 if its URI is a blessed model's, 0 if there is none."""


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
    chosen = choose(blessed, model.uri, data, Path(push_record))
    found = blessed.find(chosen.uri) if chosen.uri else None
    if found is None:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
        for file, text in ((WHY, chosen.why_not), (DAMAGED, chosen.damaged)):
            if text:
                (Path(baseline.uri) / file).write_text(text, encoding="utf-8")
    _point(baseline, found)


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
) -> None:
    """Add `model` to the blessed ones if it is, and say which is the newest of them, whichever run made it.

    Args:
        model: the candidate.
        blessing: the Evaluator's verdict on it.
        schema: with the types of the data columns.
        entry: the newest's entry as JSON, spelled as in the file; {} if no model is blessed yet, or the newest is gone
            or damaged, so that it cannot be pushed.
        newest: that model; an empty folder if there is none.
        label: LabelConfig as JSON.
        columns: JSON list of the data columns that features read.
        registry: path of `blessed.json`.
        push_record: path of `pushed.json`.
    """
    path = Path(registry)
    if is_model_blessed(blessing):
        read = set(json.loads(columns))
        types = {column: type_ for column, type_ in columns_of(schema.uri).items() if column in read}
        made_for = MadeFor(label=label, columns=types)
        record(path, model.uri, datetime.now(UTC), made_for, contents_of(model))
    found = Registry.read(path).newest
    if found and found.uri != model.uri and (flaw := flaw_of(found.uri, found, None, Path(push_record))):
        print(flaw.reason)
        found = None
    # Whole paths are a pod's own: they would make each run look new to what goes by this text.
    spelled = found.with_paths(lambda uri: inside(path.parent, uri)) if found else None
    entry.value = spelled.model_dump_json() if spelled else json.dumps({})
    # Without its checksum: Pusher compares the files itself, and knows what is in service if they are damaged.
    _point(newest, found.model_copy(update={"contents": None}) if found else None)


class Chosen(NamedTuple):
    """`uri`: of the baseline, or None; `why_not`: why the best predecessor is not it, "" if it is or there is none;
    `damaged`: why no candidate may be blessed that has to be compared, "" if one may.
    """

    uri: str | None
    why_not: str = ""
    damaged: str = ""


def choose(registry: Registry, candidate: str, data: MadeFor | None = None, push_record: Path | None = None) -> Chosen:
    """The best predecessor that is there still, whole, and made for such data.

    If the only ones that would do are damaged, nothing is chosen, and a comparison must not pass: otherwise damage to
    a file would let any candidate take the place of the model in service. The newest model itself, which an unchanged
    run judges again, is the one in service. push_record: path of `pushed.json`.
    """
    why_not = damaged = ""
    in_service = registry.newest is not None and registry.newest.uri == candidate
    for uri in registry.predecessors(candidate):
        flaw = flaw_of(uri, registry.find(uri), data, push_record)
        if flaw is None:
            return Chosen(uri, why_not)
        print(flaw.reason)
        why_not = why_not or flaw.reason
        if flaw.damaged and not damaged and not in_service:
            damaged = f"{flaw.reason}, and there is no other to compare with.\n{_WAY_OUT.format(uri)}"
    return Chosen(None, why_not, damaged)


_WAY_OUT = (
    "  Restore the files of {} from a backup; or remove that folder: a model that is gone is not compared with, so the"
    " next candidate is judged without a baseline."
)


def columns_of(schema: str) -> dict[str, str]:
    """The data columns with their types, from a Schema artifact."""
    return dict(column_types(read_schema(Path(schema) / "schema.pbtxt")))


def record(path: Path, uri: str, now: datetime, made_for: MadeFor | None = None, contents: str | None = None) -> Entry:
    """Make a blessed model the newest in the file; one that is so already stays as it is. Its entry.

    Runs that share the folder (pods with one volume) wait for each other, so that none loses another's blessing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path.with_name(f".{path.name}.lock")):
        registry = Registry.read(path)
        if registry.newest and registry.newest.uri == uri:
            return registry.newest
        compared_with = next(iter(registry.predecessors(uri)), None)
        blessed_at = _time_after(registry.newest, now)
        entry = Entry(uri=uri, blessed_at=blessed_at, compared_with=compared_with, made_for=made_for, contents=contents)
        registry.with_newest(entry).write(path)
    return entry


def _time_after(newest: Entry | None, now: datetime) -> str:
    """The time of a blessing, which orders the list: now, or a second after the newest one's, which a machine whose
    clock is ahead may have made.
    """
    last = datetime.fromtimestamp(0, UTC)
    if newest is not None:
        with contextlib.suppress(ValueError):  # no time, in a list that was written by hand
            last = datetime.fromisoformat(newest.blessed_at)
            last = last if last.tzinfo else last.replace(tzinfo=UTC)
    return max(now, last + timedelta(seconds=1)).isoformat(timespec="seconds")


def _point(output: standard_artifacts.Model, found: Entry | None) -> None:
    """Let an output be a blessed model, as it was when it was blessed; or an empty folder."""
    output.set_int_custom_property(EXISTS, int(found is not None))
    if found is None:
        Path(output.uri).mkdir(parents=True, exist_ok=True)
        return
    output.uri = found.uri
    if found.contents:
        output.set_string_custom_property(CONTENTS, found.contents)
