"""What a candidate is compared with, and the record of the models that passed."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from components.registry import Entry, Registry

EXISTS = "exists"
"""Custom property of the baseline: 1 if its URI is a blessed model's, 0 if there is none."""
GONE = "gone.txt"
"""File in a baseline that there is none of, if models were blessed and all are gone: says which. Nothing else is there.
A file and no property, so that the Evaluator's cache key tells the one from the other."""


@component
def Baseline(  # noqa: N802
    model: InputArtifact[standard_artifacts.Model],
    baseline: OutputArtifact[standard_artifacts.Model],
    registry: Parameter[str],
) -> None:
    """Point `baseline` at the model that `model` is compared with. registry: path of `blessed.json`."""
    candidates = Registry.read(Path(registry)).predecessors(model.uri)
    found = choose(candidates)
    if found is None:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
        if candidates:
            (Path(baseline.uri) / GONE).write_text(_gone(candidates), encoding="utf-8")
    else:
        baseline.uri = found
    baseline.set_int_custom_property(EXISTS, int(found is not None))


@component
def RecordBlessing(  # noqa: N802
    model: InputArtifact[standard_artifacts.Model],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    entry: OutputArtifact[standard_artifacts.String],
    registry: Parameter[str],
) -> None:
    """Add `model` to the blessed ones if it is. entry: JSON of its line there, or {} for one that is not blessed."""
    if not is_model_blessed(blessing):
        entry.value = json.dumps({})
        return
    entry.value = record(Path(registry), model.uri, datetime.now(UTC)).model_dump_json()


def choose(candidates: Sequence[str]) -> str | None:
    """The first URI whose model is still there; None if there is none. Says which ones are gone."""
    for uri in candidates:
        if Path(uri).is_dir():
            return uri
        print(f"the blessed model {uri} is gone; looking for an older one to compare with")
    return None


def record(path: Path, uri: str, now: datetime) -> Entry:
    """Make a blessed model the newest in the file; one that is so already stays as it is. Its entry."""
    registry = Registry.read(path)
    if registry.models and registry.models[-1].uri == uri:
        return registry.models[-1]
    compared_with = next(iter(registry.predecessors(uri)), None)
    entry = Entry(uri=uri, blessed_at=now.isoformat(timespec="seconds"), compared_with=compared_with)
    registry.with_newest(entry).write(path)
    return entry


def _gone(uris: Sequence[str]) -> str:
    """What the summary of the run says of models that are no longer there."""
    newest, *older = uris
    others = f", and so {'is' if len(older) == 1 else 'are'} {len(older)} older" if older else ""
    return f"the blessed model {newest} is gone{others}: compared with none"
