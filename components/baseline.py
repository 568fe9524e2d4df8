"""What a candidate is compared with, and the record of the models that passed."""

import json
from datetime import UTC, datetime
from pathlib import Path

from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from components.contents import CONTENTS, contents_of
from components.registry import WHY, Entry, MadeFor, Registry, inside
from components.schema import column_types, read_schema
from configs.checksums import checksum
from configs.lock import alone

EXISTS = "exists"
"""Custom property of the baseline: 1 if its URI is a blessed model's, 0 if there is none."""
SAVED_MODEL = "Format-Serving/saved_model.pb"
"""In a model that is there with all its files."""


@component
def Baseline(  # noqa: N802
    model: InputArtifact[standard_artifacts.Model],
    schema: InputArtifact[standard_artifacts.Schema],
    baseline: OutputArtifact[standard_artifacts.Model],
    label: Parameter[str],
    registry: Parameter[str],
) -> None:
    """Point `baseline` at the model that `model` is compared with.

    label: LabelConfig as JSON; registry: path of `blessed.json`.
    """
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    blessed = Registry.read(Path(registry))
    uri, why_not = choose(blessed, model.uri, data)
    found = blessed.find(uri) if uri else None
    if found is None and why_not:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
        (Path(baseline.uri) / WHY).write_text(why_not, encoding="utf-8")
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
) -> None:
    """Add `model` to the blessed ones if it is, and say which is the newest of them, whichever run made it.

    entry: the newest's entry as JSON, spelled as in the file, {} if no model is blessed yet; newest: that model, an
    empty folder if there is none; label: LabelConfig as JSON; columns: JSON list of the data columns that features
    read; registry: path of `blessed.json`.
    """
    path = Path(registry)
    if is_model_blessed(blessing):
        read = set(json.loads(columns))
        types = {column: type_ for column, type_ in columns_of(schema.uri).items() if column in read}
        made_for = MadeFor(label=label, columns=types)
        record(path, model.uri, datetime.now(UTC), made_for, contents_of(model))
    found = Registry.read(path).newest
    # Whole paths are a pod's own: they would make each run look new to what goes by this text.
    spelled = found.with_paths(lambda uri: inside(path.parent, uri)) if found else None
    entry.value = spelled.model_dump_json() if spelled else json.dumps({})
    # Without its checksum: Pusher compares the files itself, and knows what is in service if they are damaged.
    _point(newest, found.model_copy(update={"contents": None}) if found else None)


def choose(registry: Registry, candidate: str, data: MadeFor | None = None) -> tuple[str | None, str]:
    """The URI of the best predecessor that is there still and made for such data, or None; and why the best is not it.

    The reason is empty if the best is the one, or if no model is blessed.
    """
    first = ""
    for uri in registry.predecessors(candidate):
        reason = why_not(uri, registry.find(uri), data)
        if not reason:
            return uri, first
        print(reason)
        first = first or reason
    return None, first


def why_not(uri: str, entry: Entry | None, data: MadeFor | None) -> str:
    """Why this blessed model cannot be used with such data; empty if it can."""
    if not Path(uri).is_dir():
        return f"the blessed model {uri} is gone"
    # A pod has only an empty folder for each: what it then fetches is looked at before it is used.
    if entry and entry.contents and (Path(uri) / SAVED_MODEL).exists() and checksum(Path(uri)) != entry.contents:
        return f"the blessed model {uri} is damaged: its files are not as they were when it was blessed"
    if entry and entry.made_for and data and not entry.made_for.fits(data):
        return f"the blessed model {uri} was made for another label or other data columns"
    return ""


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
        blessed_at = now.isoformat(timespec="seconds")
        entry = Entry(uri=uri, blessed_at=blessed_at, compared_with=compared_with, made_for=made_for, contents=contents)
        registry.with_newest(entry).write(path)
    return entry


def _point(output: standard_artifacts.Model, found: Entry | None) -> None:
    """Let an output be a blessed model, as it was when it was blessed; or an empty folder."""
    output.set_int_custom_property(EXISTS, int(found is not None))
    if found is None:
        Path(output.uri).mkdir(parents=True, exist_ok=True)
        return
    output.uri = found.uri
    if found.contents:
        output.set_string_custom_property(CONTENTS, found.contents)
