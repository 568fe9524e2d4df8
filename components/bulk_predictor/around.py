"""The components around BulkPredictor: what there is to predict, and the file that gets the predictions.

Both depend on files outside the pipeline, so they run every time; what they do takes milliseconds if nothing changed.
"""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.bulk_predictor.artifact import Predictions
from headrace.components.bulk_predictor.publishing import list_new_data, publish_predictions


@component
def PredictSpans(  # noqa: N802
    as_of: InputArtifact[standard_artifacts.String],
    spans: OutputArtifact[standard_artifacts.String],
    data: Parameter[str],
    code: Parameter[str] = "",
) -> None:
    """List the new data that a run predicts.

    Args:
        as_of: the date of the run, from Spans; spans with dates after it are left out.
        spans: the manifest as JSON.
        data: the DataConfig of the new data as JSON.
        code: a digest of the code that finds spans, including the user's own function if one supplies the data.
    """
    list_new_data(as_of, spans, data, code)


@component
def PublishPredictions(  # noqa: N802, PLR0913, PLR0917
    predictions: InputArtifact[Predictions],
    model: InputArtifact[standard_artifacts.Model],
    spans: InputArtifact[standard_artifacts.String],
    published: OutputArtifact[standard_artifacts.String],
    publish_to: Parameter[str],
    pushed_model: InputArtifact[standard_artifacts.PushedModel] = None,
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
    """
    publish_predictions(predictions, model, spans, published, publish_to, pushed_model)
