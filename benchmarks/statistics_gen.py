"""Statistics of written examples: our StatisticsGen and TFX's, from the same TFRecords to the same protos.

    python -m benchmarks.statistics_gen            a table
    python -m benchmarks.statistics_gen --json     the same figures as JSON

Measured as in benchmarks.ingest, on the gzip shards that our ExampleGen writes of the taxi data, and on a table of many
numeric columns with gaps. The benchmark fails
if the two protos differ in a count, an extreme, or the most frequent values.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, transform_wide
from benchmarks.ingest import SPLITS, beam_pipeline, measured, prepare_ours, write_taxi
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import CsvSource

COPIES = 8
"""Of the taxi data: 120,016 rows, which take stock a quarter of a minute."""

COLUMNS = 1000
"""Of the wide table, which has 5,000 rows."""

REPEATS, QUICK = {"ours": 3, "stock": 3}, {"ours": 1, "stock": 1}
MODULES = {"ours": "headrace.components.statistics.component", "stock": "tfx.components.statistics_gen.executor"}


def prepare(engine: str, examples: Path, out: Path) -> Iterator[None]:
    """Import and set up an executor; the work is what runs after the first step."""
    from tfx.components.util import examples_utils
    from tfx.proto import example_gen_pb2
    from tfx.types import artifact_utils, standard_artifacts

    given, made = standard_artifacts.Examples(), standard_artifacts.ExampleStatistics()
    given.uri, made.uri = str(examples), str(out / engine)
    given.split_names = artifact_utils.encode_split_names(list(SPLITS))
    examples_utils.set_payload_format(given, example_gen_pb2.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(given, "tfrecords_gzip")
    class_ = importlib.import_module(MODULES[engine]).Executor
    executor = class_(class_.Context(make_beam_pipeline_fn=beam_pipeline))
    yield
    executor.Do({"examples": [given]}, {"statistics": [made]}, {"exclude_splits": "[]"})
    yield


def measure_here(engine: str, given: str, out: str) -> measure.Figures:
    """Run one engine in this process; `write`: make the examples that the others read, of a CSV file."""
    if engine == "write":
        return measured(prepare_ours(CsvSource(kind="csv", path=given), Path(out)))
    if engine == "write-wide":
        transform_wide.write("numeric", given, out)
        return {}
    if engine == "compare":
        return {"features": compared(Path(given, "ours"), Path(given, "stock"))}
    return measured(prepare(engine, Path(given), Path(out)))


def compared(ours: Path, stock: Path) -> int:
    """How many features of all splits are the same in both; raises SystemExit for one that is not."""
    from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
    from tfx.utils import io_utils

    count = 0
    for split in SPLITS:
        files = [folder / f"Split-{split}" / DEFAULT_FILE_NAME for folder in (ours, stock)]
        one, other = (_facts(io_utils.read_bytes_file(str(file))) for file in files)
        if one != other:
            name = next(name for name in {**one, **other} if one.get(name) != other.get(name))
            raise SystemExit(f"statistics of {name!r} in {split!r} differ: {one.get(name)}, {other.get(name)}")
        count += len(one)
    return count


def _facts(serialized: bytes) -> Mapping[str, Any]:
    """What must be the same to the last digit, by feature."""
    from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

    (found,) = DatasetFeatureStatisticsList.FromString(serialized).datasets
    return {
        feature.path.step[0]: (
            found.num_examples,
            feature.type,
            (common.num_non_missing, common.num_missing, common.tot_num_values),
            (feature.num_stats.min, feature.num_stats.max, feature.num_stats.num_zeros),
            (feature.string_stats.unique, [(top.value, top.frequency) for top in feature.string_stats.top_values]),
        )
        for feature in found.features
        for common in [(feature.num_stats if feature.HasField("num_stats") else feature.string_stats).common_stats]
    }


def measure_all(repeats: Mapping[str, int], copies: int = COPIES) -> list[dict[str, float | str]]:
    """One row of figures for each table and engine: medians over fresh processes, ours and stock in turn."""
    with tempfile.TemporaryDirectory() as name:
        taxi, wide = Path(name, "taxi"), Path(name, "wide")
        for folder in (taxi, wide):
            folder.mkdir()
        rows = write_taxi(taxi / "taxi.csv", copies)
        measure.in_child("statistics_gen", "write", str(taxi / "taxi.csv"), str(taxi))
        measure.in_child("statistics_gen", "write-wide", str(COLUMNS), str(wide))
        wide_rows = sum(shards * size for shards, size in transform_wide.SPLITS.values())
        return [*_measured("taxi", taxi, rows, repeats), *_measured("wide", wide, wide_rows, {**repeats, "stock": 1})]


def _measured(table: str, folder: Path, rows: int, repeats: Mapping[str, int]) -> list[dict[str, float | str]]:
    given = str(folder / "examples"), str(folder)
    found = measure.in_turn(repeats, lambda engine: measure.in_child("statistics_gen", engine, *given))
    features = measure.in_child("statistics_gen", "compare", str(folder), str(folder))["features"]
    return [
        {"table": table, "engine": engine, "features": features, **measure.throughput(rows, found[engine])}
        for engine in repeats
    ]


def section(rows: Sequence[Mapping[str, float | str]]) -> Section:
    """The table and notes."""
    names = {"ours": "Headrace", "stock": "stock StatisticsGen"}
    cells = [
        [f"{row['table']}, {row['features']} features: {names[str(row['engine'])]}", *measure.throughput_cells(row)]
        for row in rows
    ]
    tables = dict.fromkeys(str(row["table"]) for row in rows)
    ratios = [f"{measure.stock_ratio([row for row in rows if row['table'] == name]):.1f} ({name})" for name in tables]
    notes = (
        f"Rows per CPU second, Headrace by stock: {', '.join(ratios)}.",
        "Gzip shards of tf.Example in three splits become statistics of each; counts, extremes and the most frequent"
        " values of all features are the same in both.",
    )
    return Section("Statistics", [("Statistics of written examples", Table(["", *measure.THROUGHPUT], cells))], notes)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)


if __name__ == "__main__":
    main()
