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
) -> None:
    """Point at the model in service, for a pipeline that only predicts.

    Raises RunError if there is none, or if its files are not the ones that were blessed.

    Args:
        newest: the model; the newest blessed one if nothing was pushed yet.
        version: its version there; "" if it was not pushed.
        registry: path of `blessed.json`.
        push_record: path of `pushed.json`.
        serving: the folder that a model server watches; "" if nothing is ever pushed.
    """
    find_model_in_service(newest, version, registry, push_record, serving)


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
    pushed_model: InputArtifact[standard_artifacts.PushedModel] = None,
    version: InputArtifact[standard_artifacts.String] = None,
) -> None:
    """Put the predictions into the file that users read, in one step, unless it has them already.

    Raises RunError if the file cannot be written.

    Args:
        predictions: from BulkPredictor.
        model: the model that predicted them.
        spans: the manifest of what was predicted.
        published: PublishedPredictions as JSON.
        publish_to: the file, with placeholders for the newest span.
        pushed_model: from Pusher, which knows the version of the model; None if nothing is ever pushed.
        version: from ModelInService, in place of it.
    """
    publish_predictions(predictions, model, spans, published, publish_to, pushed_model, version)
