"""What a candidate is compared with, and the record of the models that passed."""

import json
from datetime import UTC, datetime
from pathlib import Path

from tfx.components.evaluator import constants
from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from components.registry import Entry, Registry

EXISTS = "exists"
"""Custom property of the baseline: 1 if its URI is a blessed model's, 0 if there is none (then it is empty)."""


@component
def Baseline(  # noqa: N802
    model: InputArtifact[standard_artifacts.Model],
    baseline: OutputArtifact[standard_artifacts.Model],
    registry: Parameter[str],
) -> None:
    """Point `baseline` at the model that `model` is compared with. registry: path of `blessed.json`."""
    found = choose(Registry.read(Path(registry)), model.uri)
    if found is None:
        Path(baseline.uri).mkdir(parents=True, exist_ok=True)
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
    compared_with = blessing.get_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY) or None
    entry.value = record(Path(registry), model.uri, compared_with, datetime.now(UTC)).model_dump_json()


def choose(registry: Registry, candidate: str) -> str | None:
    """The URI of the best predecessor that is still there; None if there is none. Says which ones are gone."""
    for uri in registry.predecessors(candidate):
        if Path(uri).is_dir():
            return uri
        print(f"the blessed model {uri} is gone; looking for an older one to compare with")
    return None


def record(path: Path, uri: str, compared_with: str | None, now: datetime) -> Entry:
    """Add a blessed model to the file as the newest; one that is there already stays as it is. Its entry."""
    registry = Registry.read(path)
    entry = registry.find(uri)
    if entry is None:
        entry = Entry(uri=uri, blessed_at=now.isoformat(timespec="seconds"), compared_with=compared_with)
        registry.with_newest(entry).write(path)
    return entry
