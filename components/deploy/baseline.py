"""The blessed models that a run builds on: the baseline, the model that training starts from, and the newest one.

Baseline, WarmStart and RecordBlessing read or write `blessed.json`, so they run every time.
"""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.deploy.choices import find_base_model, find_baseline, list_blessed
from headrace.components.stored_models.blessed_record import AUTOMATIC


@component
def Baseline(  # noqa: N802
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
    find_baseline(
        model=model,
        schema=schema,
        baseline=baseline,
        label=label,
        registry=registry,
        push_record=push_record,
    )


@component
def WarmStart(  # noqa: N802, PLR0913, PLR0917
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    schema: InputArtifact[standard_artifacts.Schema],
    base: OutputArtifact[standard_artifacts.Model],
    training: Parameter[str],
    label: Parameter[str],
    registry: Parameter[str],
    push_record: Parameter[str],
    split_spans: Parameter[str] = "",
    spans: InputArtifact[standard_artifacts.String] = None,
) -> None:
    """Point `base` at the model whose weights training starts from, or at an empty folder if there is none.

    training: the Trainer's `custom_config` as JSON; label: LabelConfig as JSON; registry: path of `blessed.json`;
    push_record: path of `pushed.json`; split_spans: the setting as JSON; spans: the manifest, if the run holds out
    spans, from which the model must not have learned.
    """
    find_base_model(
        transform_graph=transform_graph,
        schema=schema,
        base=base,
        training=training,
        label=label,
        registry=registry,
        push_record=push_record,
        split_spans=split_spans,
        spans=spans,
    )


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
    split_spans: Parameter[str] = "",
    spans: InputArtifact[standard_artifacts.String] = None,
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
        canary: the Canary's verdict, or Lite's, which includes it; None if there is neither.
        split_spans: the setting as JSON; "" for none.
        spans: the manifest of the run's spans, if it holds out some.
        statistics: of the data that `model` was trained on; None if no gate compares with them.
    """
    list_blessed(
        model=model,
        blessing=blessing,
        schema=schema,
        entry=entry,
        newest=newest,
        label=label,
        columns=columns,
        registry=registry,
        push_record=push_record,
        approval=approval,
        canary=canary,
        split_spans=split_spans,
        spans=spans,
        statistics=statistics,
    )
