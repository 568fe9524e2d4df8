"""Spans: the uncached component that looks what there is to read, so that all that follows is cached rightly."""

from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.example_gen.find import find_spans
from headrace.configs.data import DataConfig


@component
def Spans(  # noqa: N802
    data: Parameter[str],
    spans: OutputArtifact[standard_artifacts.String],
    code: Parameter[str] = "",  # noqa: ARG001 - it is there to be compiled
) -> None:
    """`data`: the DataConfig as JSON; `code`: a digest of the code that looks, with the user's own function where one
    gives the data; `spans`: the manifest as JSON.
    """
    spans.value = find_spans(DataConfig.model_validate_json(data)).to_json()
