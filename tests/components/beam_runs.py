"""Beam components in the ways of this machine: `runner: auto`, `direct`, and `direct` with workers in processes.

same_with_beam(data, tmp_path)          # the same bytes; without a Beam pipeline, and in several
"""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from forks import ForkedWorker
from tfx.types import standard_artifacts

from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.example_gen.component import Executor
from headrace.components.spans.find import find_spans
from headrace.components.statistics import component as statistics_gen
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig

AUTO, DIRECT = BeamConfig(), BeamConfig(runner="direct")
THREADS = BeamConfig(runner="direct", workers=3)
PROCESSES = BeamConfig(runner="direct", direct_running_mode="multi_processing", workers=2)
WITH_BEAM = [
    pytest.param(DIRECT, id="direct"),
    pytest.param(PROCESSES, id="multi_processing", marks=pytest.mark.slow),
]


@contextmanager
def forked_workers() -> Iterator[None]:
    """Beam's processes start in a tenth of the time of their imports, all else is theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedWorker)
        yield


@dataclass(frozen=True)
class Made:
    """The uncompressed shards and the statistics, by path; and what Beam executed for each of the two components."""

    examples: standard_artifacts.Examples
    statistics: standard_artifacts.ExampleStatistics
    files: dict[str, bytes]
    ingest_summary: str
    statistics_summary: str


def make(data: DataConfig, folder: Path, beam: BeamConfig) -> Made:
    """Run ExampleGen and StatisticsGen in an empty folder."""
    folder.mkdir()
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    statistics = standard_artifacts.ExampleStatistics()
    for artifact in (spans, examples, statistics):
        artifact.uri = str(folder / artifact.type_name)
        artifact.set_string_custom_property("tfx_version", "1.21.0")
    spans.write(find_spans(data).to_json())
    ingest, sums = BeamPipelines(beam, folder), BeamPipelines(beam, folder)
    with forked_workers():
        Executor(Executor.Context(make_beam_pipeline_fn=ingest)).Do(
            {"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)}
        )
        context = statistics_gen.Executor.Context(make_beam_pipeline_fn=sums)
        statistics_gen.Executor(context).Do(
            {"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"}
        )
    return Made(examples, statistics, contents(folder, examples, statistics), ingest.summary, sums.summary)


def contents(folder: Path, *artifacts: Any) -> dict[str, bytes]:
    """The uncompressed files of artifacts, by their path in the folder."""
    found = [path for made in artifacts for path in sorted(Path(made.uri).rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): unpacked(path) for path in found}


def unpacked(path: Path) -> bytes:
    """The bytes in a file, which may be gzipped."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def same_with_beam(data: DataConfig, folder: Path, pipelines: int = 3, direct: BeamConfig = DIRECT) -> None:
    """Both ways make the same bytes, and only `direct` uses Beam. `pipelines`: those of ExampleGen: one for each pass
    over the data.
    """
    without, with_beam = make(data, folder / "auto", AUTO), make(data, folder / "direct", direct)
    assert with_beam.files == without.files
    assert sum(len(content) for name, content in without.files.items() if name.startswith("Examples")) > 1000
    assert len([name for name in without.files if name.endswith("FeatureStats.pb")]) == len(data.splits)
    assert without.ingest_summary == without.statistics_summary
    assert without.ingest_summary.startswith("auto, no pipeline")
    assert transforms(with_beam.ingest_summary, pipelines) >= 3 * pipelines
    assert transforms(with_beam.statistics_summary, 1) >= 4
    ours, theirs = (dict(made.examples.mlmd_artifact.custom_properties) for made in (without, with_beam))
    for properties in (ours, theirs):
        del properties["input_fingerprint"]  # which a query never has twice
    assert theirs == ours
    assert {"rows", "types", "plan"} <= ours.keys()


def transforms(summary: str, pipelines: int) -> int:
    """How many Beam executed, in how many pipelines."""
    said = re.fullmatch(r"\w+, (\d+) pipelines?, ([\d,]+) transforms", summary)
    assert said is not None, summary
    assert int(said[1]) == pipelines, summary
    return int(said[2].replace(",", ""))
