"""A night of a rolling window over daily data: what it costs when one day is new, and when everything is done anew.

    python -m benchmarks.nightly            a table
    python -m benchmarks.nightly --json     the same figures as JSON

Every night is a process of its own. What is measured is processor time of the executors' work, without imports: of
ExampleGen, StatisticsGen and Transform, whose analysis and whose writing of transformed examples are told apart. The
data is the taxi data, a file a day, with other numbers every day.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ingest, measure, spans_stock
from benchmarks.tables import Section, Table

WINDOWS = (7, 15, 30)
QUICK = (7, 30)
DAYS = 31
COPIES = 4
"""Copies of the taxi data that make a day."""
STEPS = ("ExampleGen", "StatisticsGen", "analysis", "writing")
NIGHTS = {"first": "first night", "next": "next night", "anew": "next night, without a store"}


def write_days(folder: Path) -> int:
    """A file of natural rows for each day, none twice; the rows of a day."""
    every = folder / "every.csv"
    rows = ingest.write_taxi(every, DAYS * COPIES) // DAYS
    with every.open() as lines:
        header = next(lines)
        for day in range(1, DAYS + 1):
            with (folder / f"taxi-{day:02d}.csv").open("w") as file:
                file.write(header)
                file.writelines(next(lines) for _ in range(rows))
    every.unlink()
    return rows


def night(home: str, data: str, window: str, newest: str, store: str) -> measure.Figures:
    """Run the executors in this process over the window that ends with day `newest`; processor seconds of each."""
    from tfx.components.schema_gen.executor import Executor as SchemaGen
    from tfx.types import standard_artifacts as kinds

    from components.example_gen.component import Executor as ExampleGen
    from components.example_gen.find import find_spans
    from components.statistics.component import Executor as StatisticsGen
    from components.transform import Executor as Transform
    from configs.loader import load
    from trainer.sections import TrainerSections

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
    function = "trainer.preprocessing.preprocessing_fn"
    outputs = ["transform_graph", "transformed_examples"]
    _run(Timed, made, ["examples", "schema"], outputs, preprocessing_fn=function, custom_config=sections, **kept)
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


def measure_all(windows: Sequence[int], *, stock: bool = True) -> list[dict[str, float | str]]:
    """A row of figures for each window and night."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        number = write_days(data)
        for window in windows:
            homes = {name: Path(folder, f"{name}-{window}") for name in NIGHTS}
            store = Path(folder, "store")
            for name in NIGHTS:
                newest = DAYS - 1 if name == "first" else DAYS
                given = (homes[name], data, window, newest, "" if name == "anew" else store)
                found = measure.json_of("benchmarks.nightly", "--child", *map(str, given))
                rows.append({"window": window, "night": name, "rows": window * number, **found})
            if stock:
                examples, schema = homes["next"] / "examples", homes["next"] / "schema"
                found = spans_stock.nights(Path(folder, f"stock-{window}"), examples, schema)
                rows += [{"window": window, "rows": window * number, **one} for one in found]
            for used in (*homes.values(), store):
                shutil.rmtree(used)
    return rows


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The figures for people."""
    head = ["", "days", "rows", "ExampleGen", "StatisticsGen", "analysis", "the three", "writing"]
    cells = []
    for row in rows:
        found = [row.get(step) for step in STEPS]
        three = sum(found[:3]) if None not in found[:3] else None
        told = [*found[:3], three, found[3]]
        name = NIGHTS.get(row["night"], row["night"])
        cells.append([name, f"{row['window']}", f"{row['rows']:,}", *("" if n is None else f"{n:.2f}" for n in told)])
    notes = (
        "Processor seconds. One day is new in the next night; without a store the whole window is done anew, as one."
        " `analysis` is Transform's, `writing` its writing of the transformed examples, which the new graph changes for"
        " the whole window, so that it always covers all of it.",
        "Stock: TFX's Transform, analysis alone, a span an artifact, with its analyzer cache, and the features written"
        " with TFT's own analyzers.",
    )
    return Section("A night of a rolling window", [("Daily taxi files", Table(head, cells))], notes)


def main() -> None:
    """Measure and print; with --child, run one night here."""
    measure.command(
        __doc__,
        lambda given: measure_all([int(days) for days in given.windows.split(",")], stock=not given.no_stock),
        section,
        child=night,
        options={
            "--windows": {"default": ",".join(map(str, WINDOWS)), "help": "days, such as 7,30"},
            "--no-stock": {"action": "store_true"},
        },
    )


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
