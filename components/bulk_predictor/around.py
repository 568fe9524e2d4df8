"""The components around BulkPredictor: which model predicts, what there is to predict, and where the predictions go.

They depend on files outside the pipeline, so they run every time; what they do takes milliseconds if nothing changed.
"""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.bulk_predictor.artifact import Predictions
from headrace.components.bulk_predictor.publishing import find_model_in_service, list_new_data, publish_predictions


@component
def ModelInService(  # noqa: N802
    newest: OutputArtifact[standard_artifacts.Model],
    version: OutputArtifact[standard_artifacts.String],
    registry: Parameter[str],
    push_record: Parameter[str],
    serving: Parameter[str] = "",
    pushed_model: InputArtifact[standard_artifacts.PushedModel] = None,
) -> None:
    """Point at the model in service, which after a push may be that of another run, or the one before.

    Raises RunError if its files are not the ones that were blessed, or if a pipeline that only predicts has none.

    Args:
        newest: the model; the newest blessed one if nothing was pushed yet.
        version: its version there; "" if it was not pushed.
        registry: path of `blessed.json`.
        push_record: path of `pushed.json`.
        serving: the folder that a model server watches; "" if nothing is ever pushed.
        pushed_model: from Pusher, after which the model is looked for; None in a pipeline that only predicts.
    """
    find_model_in_service(newest, version, registry, push_record, serving, pushed_model)


@component
def PredictSpans(  # noqa: N802
    spans: OutputArtifact[standard_artifacts.String],
    data: Parameter[str],
    code: Parameter[str] = "",
    as_of: InputArtifact[standard_artifacts.String] = None,
) -> None:
    """List the new data that a run predicts.

    Args:
        spans: the manifest as JSON.
        data: the DataConfig of the new data as JSON.
        code: a digest of the code that finds spans, including the user's own function if one supplies the data.
        as_of: the date of the run, from Spans; spans with dates after it are left out. None: `run_date`, or today.
    """
    list_new_data(spans, data, code, as_of)


@component
def PublishPredictions(  # noqa: N802
    predictions: InputArtifact[Predictions],
    model: InputArtifact[standard_artifacts.Model],
    spans: InputArtifact[standard_artifacts.String],
    published: OutputArtifact[standard_artifacts.String],
    publish_to: Parameter[str],
    version: InputArtifact[standard_artifacts.String] = None,
    push_record: Parameter[str] = "",
    serving: Parameter[str] = "",
) -> None:
    """Put the predictions into the file that users read, in one step, unless it has them already, or another version
    came into service meanwhile, whose run writes the file too.

    Raises RunError if the file cannot be written.

    Args:
        predictions: from BulkPredictor.
        model: the model that predicted them.
        spans: the manifest of what was predicted.
        published: PublishedPredictions as JSON.
        publish_to: the file, with placeholders for the newest span.
        version: the model's version, from ModelInService; None if nothing is ever pushed.
        push_record: path of `pushed.json`.
        serving: the folder that a model server watches; "" if nothing is ever pushed.
    """
    publish_predictions(predictions, model, spans, published, publish_to, version, push_record, serving)
