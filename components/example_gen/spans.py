"""Spans: the uncached component that looks which files there are, so that all that follows is cached rightly."""

from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from components.example_gen.manifest import Manifest
from components.example_gen.paths import resolve
from configs.data import CsvSource


def find_spans(source: CsvSource) -> Manifest:
    """The files that a source reads now. Raises DataError if there are none."""
    return Manifest.of(resolve(source.path))


@component
def Spans(source: Parameter[str], spans: OutputArtifact[standard_artifacts.String]) -> None:  # noqa: N802
    """`source`: `data.source` as JSON; `spans`: the manifest as JSON."""
    spans.value = find_spans(CsvSource.model_validate_json(source)).to_json()
