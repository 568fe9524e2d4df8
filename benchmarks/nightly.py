"""A night of a rolling window over daily data: its cost if one day is new, and if everything is computed again.

    python -m benchmarks.nightly            a table
    python -m benchmarks.nightly --json     the same figures as JSON

Every night is a separate process. What is measured is the processor time of the executors' work, without imports: of
ExampleGen, StatisticsGen and Transform, with its analysis and its writing of transformed examples separately. The data
is the taxi data, one file per day, with other numbers every day. The comparison with stock, which takes several times
as long, covers only the analysis, on days that are a quarter as large.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ingest, measure, spans_stock
from benchmarks.tables import Section, Table

WINDOWS, BESIDE_STOCK = (7, 30), (7, 15, 30)
"""Days of the window, for whole nights and for the comparison with stock."""
DAYS = 31
COPIES, FEWER = 4, 1
"""Copies of the taxi data per day, for each of the two."""
STEPS = ("ExampleGen", "StatisticsGen", "analysis", "writing")
NIGHTS = {"first": "first night", "next": "next night", "uncached": "next night, nothing kept"}

Found = dict[str, list[dict[str, Any]]]
"""`nights`: a row for each window and night; `analyses`: one for each window, with the nights' names."""


def write_days(folder: Path, copies: int) -> int:
    """Write a file for each day, without repeated rows, and return the rows of a day."""
    folder.mkdir()
    every = folder / "every.csv"
    rows = ingest.write_taxi(every, DAYS * copies) // DAYS
    with every.open(encoding="utf-8") as lines:
        header = next(lines)
        for day in range(1, DAYS + 1):
            with (folder / f"taxi-{day:02d}.csv").open("w", encoding="utf-8") as file:
                file.write(header)
                file.writelines(next(lines) for _ in range(rows))
    every.unlink()
    return rows


def night(home: str, data: str, window: str, newest: str, store: str) -> measure.Figures:
    """Run the executors in this process over the window that ends with day `newest`; processor seconds of each."""
    from tfx.components.schema_gen.executor import Executor as SchemaGen
    from tfx.types import standard_artifacts as kinds

    from headrace.components.example_gen.component import Executor as ExampleGen
    from headrace.components.spans.find import find_spans
    from headrace.components.statistics.component import Executor as StatisticsGen
    from headrace.components.transform.component import Executor as Transform
    from headrace.configs.loading.loader import load
    from headrace.trainer.sections import TrainerSections

    config = load(measure.PROJECT / "configs" / "taxi.yaml")
    source = config.data.source.model_copy(update={"path": f"{data}/taxi-{{SPAN:2}}.csv"})
    read = config.data.model_copy(update={"source": source, "window": int(window), "spans": int(newest)})
    made = {
        name: _artifact(kind, Path(home, name))
        for name, kind in {
            "spans": kinds.String, "examples": kinds.Examples, "statistics": kinds.ExampleStatistics,
            "schema": kinds.Schema, "transform_graph": kinds.TransformGraph, "transformed_examples": kinds.Examples,
        }.items()
    }  # fmt: skip
    made["spans"].write(find_spans(read).to_json())
    kept = {"store": store, "code": "1"}
    clock = _Clock()
    with clock.of("ExampleGen"):
        _run(ExampleGen, made, ["spans"], ["examples"], data=read.model_dump_json(by_alias=True), **kept)
    with clock.of("StatisticsGen"):
        _run(StatisticsGen, made, ["examples"], ["statistics"], exclude_splits="[]", **kept)
    SchemaGen().Do(
        {"statistics": [made["statistics"]]},
        {"schema": [made["schema"]]},
        {"infer_feature_shape": 0, "exclude_splits": "[]"},
    )

    class Timed(Transform):
        def _analyze(self, *arguments: Any) -> None:
            with clock.of("analysis"):
                super()._analyze(*arguments)

        def _transform(self, *arguments: Any) -> None:
            with clock.of("writing"):
                super()._transform(*arguments)

    sections = json.dumps({"config": TrainerSections.for_transform(config).to_json()})
    function = "headrace.trainer.preprocessing.preprocessing_fn"
    outputs = ["transform_graph", "transformed_examples"]
    properties = {"preprocessing_fn": function, "custom_config": sections, "materialize": "auto"}
    _run(Timed, made, ["examples", "schema"], outputs, **properties, **kept)
    return clock.seconds


class _Clock:
    """Processor seconds by name."""

    def __init__(self) -> None:
        self.seconds: measure.Figures = {}

    def of(self, name: str) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def running() -> Any:
            before = measure.processor_seconds()
            yield
            self.seconds[name] = measure.processor_seconds() - before

        return running()


def measure_all(windows: Sequence[int] = WINDOWS, beside_stock: Sequence[int] = BESIDE_STOCK) -> Found:
    """Figures of whole nights, and of the analysis compared with stock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_days(folder / "data", COPIES)
        nights = [
            {"window": window, "rows": rows, "night": night, **found}
            for window in windows
            for night, found in _nights(folder, window, tuple(NIGHTS)).items()
        ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_days(folder / "data", FEWER) if beside_stock else 0
        analyses = [{"window": window, "rows": rows, **_beside_stock(folder, window)} for window in beside_stock]
    return {"nights": nights, "analyses": analyses}


def _nights(folder: Path, window: int, names: Sequence[str]) -> dict[str, measure.Figures]:
    """Figures by name. The output of the last night stays in the folder."""
    store = folder / f"store-{window}"
    found: dict[str, measure.Figures] = {}
    for name in names:
        newest = DAYS - 1 if name == "first" else DAYS
        home, kept = folder / f"{name}-{window}", "" if name == "uncached" else store
        given = (home, folder / "data", window, newest, kept)
        found[name] = measure.in_child("nightly", *map(str, given))
        if name != names[-1]:
            shutil.rmtree(home)
    shutil.rmtree(store)
    return found


def _beside_stock(folder: Path, window: int) -> measure.Figures:
    ours = _nights(folder, window, ("first", "next"))
    made = folder / f"next-{window}"
    stock = spans_stock.nights(folder / f"stock-{window}", made / "examples", made / "schema")
    return {
        f"{engine}, {NIGHTS[night]}": nights[night]["analysis"]
        for night in ("next", "first")
        for engine, nights in (("stock", stock), ("ours", ours))
    }


def section(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    """The tables and notes."""
    head = ["", "days", *STEPS[:3], "the three", "writing the transformed examples"]
    rows = [
        [
            NIGHTS[row["night"]],
            f"{row['window']}",
            *(f"{row[step]:.2f}" for step in STEPS[:3]),
            f"{sum(row[step] for step in STEPS[:3]):.2f}",
            f"{row[STEPS[3]]:.2f}",
        ]
        for row in found["nights"]
    ]
    day = found["nights"][0]["rows"]
    parts = [(f"CPU seconds of a run over a window of days, {day:,} rows a day", Table(head, rows))]
    if analyses := found["analyses"]:
        names = [name for name in analyses[0] if name not in {"window", "rows"}]
        rows = [[f"{row['window']}", *(f"{row[name]:.1f}" for name in names)] for row in analyses]
        caption = f"CPU seconds of the analysis alone, {analyses[0]['rows']:,} rows a day: stock Transform with its"
        parts.append((f"{caption} analyzer cache, and ours", Table(["days", *names], rows)))
    notes = (
        *_stock_note(found["analyses"]),
        "In the next night one day is new; with nothing kept the whole window is computed again, at once. ExampleGen,"
        " StatisticsGen and Transform's analysis read only the new day. The transformed examples of the whole window"
        " are written again, because the means and vocabularies are those of the new window.",
    )
    return Section("Nights of a rolling window", parts, notes)


def _stock_note(analyses: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A note on the longest window of which stock was measured."""
    for row in analyses[-1:]:
        yield (
            f"The analysis of the next night takes {row['ours, next night']:.1f} CPU seconds at {row['window']} days of"
            f" {row['rows']:,} rows, and {row['stock, next night']:.1f} in TFX's Transform with one artifact per span,"
            " its analyzer cache, and the features written with TFT's own analyzers."
        )


def main() -> None:
    """Measure and print; with --child, run one night here."""
    measure.command(
        __doc__,
        lambda given: measure_all(given.windows, () if given.no_stock else BESIDE_STOCK),
        section,
        child=night,
        options={
            "--windows": {"type": _days, "default": WINDOWS, "help": "days, such as 7,30"},
            "--no-stock": {"action": "store_true"},
        },
    )


def _days(text: str) -> list[int]:
    return [int(days) for days in text.split(",")]


def _artifact(kind: Any, path: Path) -> Any:
    artifact = kind()
    artifact.uri = str(path)
    artifact.set_string_custom_property("tfx_version", "1.21.0")
    path.parent.mkdir(parents=True, exist_ok=True)
    return artifact


def _run(
    executor: Any, made: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], **properties: Any
) -> None:
    given, taken = ({name: [made[name]] for name in names} for names in (inputs, outputs))
    executor(executor.Context(make_beam_pipeline_fn=ingest.beam_pipeline)).Do(given, taken, properties)


if __name__ == "__main__":
    main()
