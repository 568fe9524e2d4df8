"""ExampleGen and StatisticsGen in the two ways of this machine: `runner: auto`, and `runner: direct`.

same_with_beam(data, tmp_path)          # the same bytes; without a Beam pipeline, and in several
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from tfx.types import standard_artifacts

from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.example_gen.component import Executor
from headrace.components.example_gen.spans.find import find_spans
from headrace.components.statistics import component as statistics_gen
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig

AUTO, DIRECT = BeamConfig(), BeamConfig(runner="direct")


@dataclass(frozen=True)
class Made:
    """The uncompressed shards and the statistics, by path; and what Beam executed for each of the two components."""

    files: dict[str, bytes]
    ingest: str
    statistics: str


def make(data: DataConfig, folder: Path, beam: BeamConfig) -> Made:
    """Run both components in an empty folder."""
    folder.mkdir()
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    statistics = standard_artifacts.ExampleStatistics()
    for artifact in (spans, examples, statistics):
        artifact.uri = str(folder / artifact.type_name)
        artifact.set_string_custom_property("tfx_version", "1.21.0")
    spans.write(find_spans(data).to_json())
    ingest, sums = BeamPipelines(beam, folder), BeamPipelines(beam, folder)
    Executor(Executor.Context(make_beam_pipeline_fn=ingest)).Do(
        {"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)}
    )
    context = statistics_gen.Executor.Context(make_beam_pipeline_fn=sums)
    statistics_gen.Executor(context).Do(
        {"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"}
    )
    found = [path for made in (examples, statistics) for path in sorted(Path(made.uri).rglob("*")) if path.is_file()]
    return Made({str(path.relative_to(folder)): unpacked(path) for path in found}, ingest.summary, sums.summary)


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
    assert without.ingest == without.statistics
    assert without.ingest.startswith("auto, no pipeline")
    assert transforms(with_beam.ingest, pipelines) >= 3 * pipelines
    assert transforms(with_beam.statistics, 1) >= 4


def transforms(summary: str, pipelines: int) -> int:
    """How many Beam executed, in how many pipelines."""
    said = re.fullmatch(r"\w+, (\d+) pipelines?, (\d+) transforms", summary)
    assert said is not None, summary
    assert int(said[1]) == pipelines, summary
    return int(said[2])
