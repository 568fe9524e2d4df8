"""Spans: the uncached component that lists what there is to read, so that the cache keys of all others are right."""

from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.spans.find import write_spans


@component
def Spans(  # noqa: N802
    data: Parameter[str],
    spans: OutputArtifact[standard_artifacts.String],
    as_of: OutputArtifact[standard_artifacts.String],
    code: Parameter[str] = "",  # noqa: ARG001 - part of what is compiled
) -> None:
    """List the spans that a run reads.

    Args:
        data: the DataConfig as JSON.
        spans: the manifest as JSON.
        as_of: the date as of which the data is judged; see `date_of_run`.
        code: a digest of the code that finds spans, including the user's own function if one supplies the data.
    """
    write_spans(data, spans, as_of)
