"""The components that end a run early, as a success, if there is no reason to train.

Those that decide have an output `go`: the components after them run unless it is `no`.
"""

import json
import logging
from pathlib import Path

from tfx.components.util.model_utils import is_infra_validated, is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.gates.arrival import stop_if_judged_so
from headrace.components.gates.verdict import DataVerdicts
from headrace.components.spans.manifest import SpanManifest
from headrace.components.trigger.decision import (
    GO,
    NO,
    VERDICT,
    WHY,
    TrainingData,
    TrainingRecord,
    look_for_new,
    update,
)
from headrace.configs.schema.schedule import DriftConfig

logger = logging.getLogger(__name__)


@component
def LookForNew(  # noqa: N802, PLR0913, PLR0917
    spans: OutputArtifact[standard_artifacts.String],
    as_of: OutputArtifact[standard_artifacts.String],
    go: OutputArtifact[standard_artifacts.String],
    why: OutputArtifact[standard_artifacts.String],
    verdict: OutputArtifact[standard_artifacts.String],
    data: Parameter[str],
    retrain: Parameter[str],
    limits: Parameter[str],
    work: Parameter[str],
    trained: Parameter[str],
    freshness: Parameter[str] = "",
) -> None:
    """Find the spans, as the component Spans does, and decide whether any data is new.

    Raises GateError if there is none, and what there is has become too old for a gate that stops.

    Args:
        spans: Manifest as JSON.
        as_of: the date as of which the data is judged, as from Spans.
        go: `yes`, `no` or `if-drifted`.
        why: the reason, in one line.
        verdict: DataVerdicts as JSON, written before the run stops: on the age of the data if there is nothing new.
        data: DataConfig as JSON.
        retrain: as in `schedule:`.
        limits: DriftConfig as JSON.
        work: a digest of the settings and the code.
        trained: path of `trained.json`.
        freshness: FreshnessGate as JSON, if the dates of spans count for it; else "".
    """
    found = look_for_new(data, retrain, limits, work, trained, freshness)
    verdict.value = found[VERDICT]
    stop_if_judged_so(DataVerdicts.model_validate_json(found[VERDICT]))
    spans.value, as_of.value, go.value, why.value = found["spans"], found["as_of"], found[GO], found[WHY]


@component
def Drift(  # noqa: N802, PLR0913, PLR0917
    examples: InputArtifact[standard_artifacts.Examples],
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    schema: InputArtifact[standard_artifacts.Schema],
    spans: InputArtifact[standard_artifacts.String],
    found: InputArtifact[standard_artifacts.String],
    go: OutputArtifact[standard_artifacts.String],
    why: OutputArtifact[standard_artifacts.String],
    limits: Parameter[str],
    columns: Parameter[str],
    trained: Parameter[str],
    store: Parameter[str],
    code: Parameter[str],
) -> None:
    """Decide whether the newest span drifted from the data that the blessed model was trained on.

    Args:
        examples: of all spans.
        statistics: of all spans.
        schema: of the data.
        spans: Manifest as JSON.
        found: the output `go` of LookForNew.
        go: `yes` or `no`.
        why: the reason, in one line.
        limits: DriftConfig as JSON.
        columns: JSON list of the columns to compare.
        trained: path of `trained.json`.
        store: StatisticsGen's.
        code: StatisticsGen's.
    """
    from headrace.components.trigger.drift import decide_by_drift

    if found.value != "if-drifted":
        go.value, why.value = "yes", "not asked for"
        return
    manifest, known = SpanManifest.from_json(spans.value), TrainingRecord.read(Path(trained))
    decision = decide_by_drift(
        name=manifest.spans[-1].name,
        examples=examples,
        statistics=statistics,
        schema=schema,
        trained=known,
        limits=DriftConfig.model_validate_json(limits),
        columns=json.loads(columns),
        store=store,
        code=code,
    )
    logger.info(decision.why)
    go.value, why.value = decision.go, decision.why
    if decision.go == NO:
        update(Path(trained), lambda now: now.with_passed(manifest.fingerprint, limits))


@component
def RecordTraining(  # noqa: N802
    spans: InputArtifact[standard_artifacts.String],
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    entry: OutputArtifact[standard_artifacts.String],
    work: Parameter[str],
    trained: Parameter[str],
    canary: InputArtifact[standard_artifacts.InfraBlessing] = None,
) -> None:
    """Record the data that this run's model was trained on. entry: TrainingData as JSON, without `statistics`."""
    manifest = SpanManifest.from_json(spans.value)
    names = tuple(span.name for span in manifest.spans)
    data = TrainingData(fingerprint=manifest.fingerprint, spans=names, work=work, statistics=statistics.uri)
    blessed = is_model_blessed(blessing) and (canary is None or is_infra_validated(canary))
    update(Path(trained), lambda now: now.with_judged(data, blessed=blessed))
    entry.value = data.model_dump_json(exclude={"statistics"})
