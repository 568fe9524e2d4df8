"""TFX's own Transform over a window of spans, with its analyzer cache: an artifact for each span, analysis alone."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks import measure


def nights(home: Path, examples: Path, schema: Path) -> dict[str, measure.Figures]:
    """The `first` and the `next` night. examples: shards of all days of the next, as our ExampleGen names them."""
    days = sorted({path.name.split("-")[1] for path in (examples / "Split-train").iterdir()}, key=int)
    for day in days:
        for shard in (examples / "Split-train").glob(f"data_tfrecord-{day}-*"):
            target = home / day / "Split-train" / shard.name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(shard, target)
    nights = {"first": days[:-1], "next": days}
    return {
        name: measure.json_of("benchmarks.spans_stock", str(home), str(schema), name, *chosen)
        for name, chosen in nights.items()
    }


def night(home: Path, schema: Path, name: str, days: list[str]) -> measure.Figures:
    """Analyze in this process; the caches of days that an earlier night left are used."""
    from google.protobuf import json_format
    from tfx.components.transform.executor import Executor
    from tfx.proto import transform_pb2
    from tfx.types import artifact_utils, standard_artifacts

    from benchmarks.ingest import beam_pipeline

    def artifact(kind: Any, path: Path) -> Any:
        made = kind()
        made.uri = str(path)
        return made

    examples = []
    for day in days:
        one = artifact(standard_artifacts.Examples, home / day)
        one.span, one.split_names = int(day), artifact_utils.encode_split_names(["train"])
        one.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
        one.set_int_custom_property("span", int(day))
        examples.append(one)
    inputs = {"examples": examples, "schema": [artifact(standard_artifacts.Schema, schema)]}
    if name == "next":
        inputs["analyzer_cache"] = [artifact(standard_artifacts.TransformCache, home / "cache-first")]
    outputs = {
        "transform_graph": [artifact(standard_artifacts.TransformGraph, home / f"graph-{name}")],
        "updated_analyzer_cache": [artifact(standard_artifacts.TransformCache, home / f"cache-{name}")],
    }
    splits = transform_pb2.SplitsConfig(analyze=["train"])
    properties = {
        "preprocessing_fn": "benchmarks.stock.taxi_utils.preprocessing_fn",
        "splits_config": json_format.MessageToJson(splits),
        "disable_statistics": 1,
        "force_tf_compat_v1": 0,
        "custom_config": "null",
    }
    executor = Executor(Executor.Context(make_beam_pipeline_fn=beam_pipeline))
    before = measure.processor_seconds()
    executor.Do(inputs, outputs, properties)
    return {"analysis": measure.processor_seconds() - before}


def main() -> None:
    """One night here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("schema", type=Path)
    parser.add_argument("name")
    parser.add_argument("days", nargs="+")
    given = parser.parse_args()
    print(json.dumps(night(given.home, given.schema, given.name, given.days)))


if __name__ == "__main__":
    main()
