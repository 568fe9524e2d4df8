"""The newest span's statistics against those of the blessed model's data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.dsl.io import fileio
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils

from headrace.components.example_gen import shard_names, shared_spans
from headrace.components.schema import read_schema
from headrace.components.statistics.combine import Statistics, add_up
from headrace.components.statistics.spans import KeptSums, is_whole, load
from headrace.components.trigger.drift import Distance, distances
from headrace.components.trigger.look import Decision
from headrace.components.trigger.trained import Trained
from headrace.configs.schedule import DriftConfig

SPLIT = "train"
TOLD = 3
"""Columns that are named."""


def drift(  # noqa: PLR0913
    *,
    name: str,
    examples: Artifact,
    statistics: Artifact,
    schema: Artifact,
    trained: Trained,
    limits: DriftConfig,
    columns: Sequence[str],
    store: str,
    code: str,
) -> Decision:
    """name: of the newest span, "" for data without spans; store: where sums of spans are kept, "" for nowhere."""
    before = trained.blessed
    file = Path(before.statistics, f"Split-{SPLIT}", DEFAULT_FILE_NAME) if before else None
    if file is None or not file.exists():
        return Decision("yes", "the statistics of the blessed model's data are gone")
    newest = newest_statistics(name, examples, statistics, store, code)
    if not newest.datasets[0].num_examples:
        return Decision("no", f"{name or 'the data'} has no examples in the split {SPLIT}")
    now = read_schema(Path(schema.uri) / "schema.pbtxt")
    found = distances(newest, tfdv.load_stats_binary(str(file)), now, limits, list(columns))
    for one in found:
        print(one, flush=True)
    return decision(found, name or "the data")


def decision(found: Sequence[Distance], what: str) -> Decision:
    """From the distances, the farthest first."""
    far = [one for one in found if one.too_far]
    if far:
        more = f" and {len(far) - TOLD} columns more" if len(far) > TOLD else ""
        return Decision("yes", f"{what} drifted: {'; '.join(map(str, far[:TOLD]))}{more}")
    if not found:
        return Decision("yes", f"no column of {what} can be compared with the blessed model's data")
    return Decision("no", f"{what} did not drift from the blessed model's data: the farthest is {found[0]}")


def newest_statistics(
    name: str, examples: Artifact, statistics: Artifact, store: str, code: str
) -> DatasetFeatureStatisticsList:
    """Of the newest span's train split: from what is kept of it, else from its shards."""
    keys = json.loads(examples.get_string_custom_property("spans") or "{}")
    if name not in keys:
        whole = Path(artifact_utils.get_split_uri([statistics], SPLIT), DEFAULT_FILE_NAME)
        return tfdv.load_stats_binary(str(whole))
    total = Statistics()
    if store:
        kept = KeptSums(Path(store), code, keys, shared_spans.current())
        kept.fetch([name])
        if is_whole(file := kept.file(name, SPLIT)):
            return total.extract_output(total.merge_accumulators([total.create_accumulator(), load(file)]))
    files = fileio.glob(io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], SPLIT)))
    shards = shard_names.by_span(sorted(files), keys).get(name, [])
    made: list[DatasetFeatureStatisticsList] = []
    add_up({name: shards}, total, lambda found: made.append(found[1]))
    return made[0]
