"""DataVerdict: holds arriving data against `gates:`. DataGate stops the run if a gate says so.

They are two components, so that there is a verdict to look at after a run that was stopped.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import Artifact, artifact_utils, standard_artifacts
from tfx.utils import io_utils

from headrace.components.examples import shard_names
from headrace.components.gates.arrival import judge_freshness, judge_rows
from headrace.components.gates.blessed_statistics import FILE_NAME, SPLIT, blessed_statistics, statistics_file
from headrace.components.gates.distance import judge_distance
from headrace.components.gates.newest_time import newest_time
from headrace.components.gates.serving import served_statistics
from headrace.components.gates.skew import judge_skew
from headrace.components.gates.verdict import DataVerdicts, GateVerdict
from headrace.components.schema import read_schema
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.split_spans import RoleOfSpans
from headrace.components.statistics.distances import span_keys, statistics_of_spans
from headrace.configs.schema.gates import DistanceGate, FreshnessGate, GatesConfig, SkewGate

logger = logging.getLogger(__name__)

NOT_ON_RECORD = "no model is blessed whose data is on record"


@component
def DataVerdict(  # noqa: N802, PLR0913, PLR0917
    examples: InputArtifact[standard_artifacts.Examples],
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    schema: InputArtifact[standard_artifacts.Schema],
    spans: InputArtifact[standard_artifacts.String],
    as_of: InputArtifact[standard_artifacts.String],
    verdict: OutputArtifact[standard_artifacts.String],
    gates: Parameter[str],
    columns: Parameter[str],
    store: Parameter[str],
    code: Parameter[str],
    registry: Parameter[str] = "",
    serving: InputArtifact[standard_artifacts.ExampleStatistics] = None,
    labels: Parameter[str] = "",
) -> None:
    """Judge the data by each gate.

    Args:
        examples: of all spans.
        statistics: of all spans.
        schema: of the data.
        spans: SpanManifest as JSON.
        as_of: the date of the run, from Spans.
        verdict: DataVerdicts as JSON.
        gates: GatesConfig as JSON.
        columns: JSON list of the columns to compare; empty for all.
        store: StatisticsGen's.
        code: StatisticsGen's.
        registry: path of `blessed.json`; "" if nothing is compared with a blessed model's data.
        serving: of the requests that a model server logged, from ServingStatistics; None without `gates.skew`.
        labels: JSON list of the columns of the labels; "" without `gates.skew`.
    """
    data = ArrivedData(examples, statistics, schema, SpanManifest.from_json(spans.value), as_of.value, store, code)
    chosen: list[str] = json.loads(columns)
    config = GatesConfig.model_validate_json(gates)
    found = judge(config, data, chosen, registry)
    if config.skew is not None and serving is not None:
        one = _skew(config.skew, data, serving, chosen, json.loads(labels))
        found = DataVerdicts(gates=(*found.gates, one))
    for one in found.gates:
        logger.info(f"{one.gate}: {one.summary}; the worst first:")
        for row in one.rows:
            logger.info(f"  {row}")
        if one.note:
            logger.info(f"{one.gate}: {one.unjudged}")
    verdict.value = found.model_dump_json()


class ArrivedData(NamedTuple):
    """The data of a run, as DataVerdict gets it."""

    examples: Artifact
    statistics: Artifact
    schema: Artifact
    manifest: SpanManifest
    as_of: str
    store: str
    code: str

    @property
    def newest(self) -> str:
        """The name of the newest span; "" for data without spans."""
        return self.manifest.spans[-1].name

    @property
    def split_of_newest(self) -> str:
        """The split by which the newest span is judged."""
        return RoleOfSpans.of(self.examples).split_with(self.newest)

    @property
    def rows(self) -> Mapping[str, int]:
        """The rows of each span; of all data if it has no spans."""
        by_span: dict[str, int] = json.loads(self.examples.get_string_custom_property("span_rows") or "{}")
        rows = json.loads(self.examples.get_string_custom_property("rows") or "{}")
        return by_span or {"": sum(rows.values())}

    def statistics_of(self, names: Sequence[str], split: str = SPLIT) -> DatasetFeatureStatisticsList:
        """Of a split of these spans; of the train split of all data if it has no spans."""
        if names == [""]:
            return tfdv.load_stats_binary(str(statistics_file(self.statistics.uri)))
        return statistics_of_spans(names, self.examples, split, self.store, self.code)

    def shards_to_train_on(self) -> list[str]:
        """The TFRecord files of the newest span to train on, without those of other splits that come from own files."""
        newest = self.manifest.newest_to_train_on.name
        from_own_files = {split for span in self.manifest.spans for split in span.splits}
        names = artifact_utils.decode_split_names(self.examples.split_names)
        splits = [name for name in names if name == "train" or name not in from_own_files]
        uris = [artifact_utils.get_split_uri([self.examples], split) for split in splits]
        files = sorted(file for uri in uris for file in fileio.glob(io_utils.all_files_pattern(uri)))
        keys = span_keys(self.examples)
        return shard_names.by_span(files, keys).get(newest, []) if newest in keys else files


def judge(gates: GatesConfig, data: ArrivedData, columns: Sequence[str], registry: str) -> DataVerdicts:
    """The verdict of every gate. Arguments as of DataVerdict."""
    blessed = blessed_statistics(registry)
    found: list[GateVerdict] = []
    if gates.rows is not None:
        rows = None if blessed is None else _rows(blessed)
        found.append(judge_rows(gates.rows, data.manifest, data.rows, rows))
    if gates.freshness is not None:
        found.append(_freshness(gates.freshness, data))
    found += _drift(gates, data, columns, blessed)
    return DataVerdicts(gates=tuple(found))


def _skew(
    gate: SkewGate, data: ArrivedData, serving: Artifact, columns: Sequence[str], labels: Sequence[str]
) -> GateVerdict:
    trained = tfdv.load_stats_binary(str(statistics_file(data.statistics.uri)))
    schema = read_schema(Path(data.schema.uri) / "schema.pbtxt")
    return judge_skew(gate, served_statistics(serving), trained, schema, columns, labels)


def _freshness(gate: FreshnessGate, data: ArrivedData) -> GateVerdict:
    time = newest_time(data.shards_to_train_on(), gate.column, gate.format) if gate.column is not None else None
    return judge_freshness(gate, data.as_of, data.manifest.newest_to_train_on.name, time)


def _drift(
    gates: GatesConfig, data: ArrivedData, columns: Sequence[str], blessed: Path | None
) -> Iterator[GateVerdict]:
    if gates.drift.blessed is None and gates.drift.earlier_spans is None:
        return
    schema, split = read_schema(Path(data.schema.uri) / "schema.pbtxt"), data.split_of_newest
    newest = data.statistics_of([data.newest], split)
    earlier = [span.name for span in data.manifest.spans[:-1]]

    def compare(name: str, gate: DistanceGate, before: DatasetFeatureStatisticsList | None, why: str) -> GateVerdict:
        if before is None:
            return GateVerdict.of(name, gate.on_anomaly, (), why)
        return judge_distance(name, gate, newest, before, schema, columns, split=split)

    if gates.drift.blessed is not None:
        before = None if blessed is None else tfdv.load_stats_binary(str(statistics_file(str(blessed))))
        yield compare("gates.drift.blessed", gates.drift.blessed, before, NOT_ON_RECORD)
    if gates.drift.earlier_spans is not None:
        before = data.statistics_of(earlier) if earlier else None
        why = "there is no earlier span in the window"
        yield compare("gates.drift.earlier_spans", gates.drift.earlier_spans, before, why)


def _rows(statistics: Path) -> int:
    files = sorted(statistics.glob(f"Split-*/{FILE_NAME}"))
    loaded = (DatasetFeatureStatisticsList.FromString(file.read_bytes()) for file in files)
    return sum(dataset.num_examples for each in loaded for dataset in each.datasets)
