"""The whole local run, process start to exit: ours, our components under TFX's runner, and stock TFX.

    python -m benchmarks.whole_run              tables
    python -m benchmarks.whole_run --json       the figures as JSON
    python -m benchmarks.whole_run --quick      one round, the three engines that matter

Every engine runs configs/taxi.yaml in a fresh folder, and then once more there with nothing changed, each time in a
fresh process, the engines in turn. None stops early, so that all train for as many epochs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import components, measure
from benchmarks.tables import Section, Table
from headrace.common.storage.paths import resolve
from headrace.components.evaluation.result import FILE_NAME, read_evaluation
from headrace.configs.loading.loader import load
from headrace.configs.schema.sources import FileSource

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
SETTINGS = ("train.early_stopping=null",)
REPEATS = {"ours": 3, "same": 3, "stock": 3, "example": 1}
QUICK = {"ours": 1, "same": 1, "stock": 1}
RUNS = ("first", "second")
COMPONENTS = (
    components.START,
    *("Spans", "ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate", "Transform", "Trainer"),
    *("Baseline", "Canary", "Evaluator", "Pusher", "RecordBlessing"),
    components.END,
)
NOTES = (
    "Equal: the data, the features, the sizes of the layers and embeddings, epochs and batch size, metrics, slices and"
    " thresholds, the search for a baseline, SQLite metadata, Beam's in-process runner, TensorFlow's environment"
    " variables, no downloads.",
    "Stock lacks the category of missing values, two of the four signatures, the logs for TensorBoard, the checkpoints"
    " of the best epoch, the gates, the canary, the confidence intervals and the report; its splits differ in a few"
    " rows, as it hashes the serialized example.",
    "Stock is TFX's taxi example without two costs that a user can avoid: the statistics that Transform computes, and"
    " the user's code as a wheel that is installed twice at run time.",
)
DETAILS = (
    "The line `as in its example`, if there is one, has both of these costs.",
    "In the second run stock evaluates again, because its Resolver now finds the model that the first run blessed."
    " Under LocalDagRunner our Baseline counts as unchanged, and nothing runs.",
    "The seconds of components that run at the same time overlap.",
)


@dataclass(frozen=True)
class Engine:
    """One way to run the pipeline, in its own folder."""

    title: str
    arguments: Sequence[str]
    """The arguments of `python -m`."""
    home: str
    """Folder of its artifacts."""
    in_tfx: bool = True
    """Whether component times come from TFX's metadata; else from our run record."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", *self.arguments, *(part for one in SETTINGS for part in ("--set", one))]

    def components(self, folder: Path, used: measure.Used) -> dict[str, float]:
        """Seconds by name, of the run that has just ended."""
        home = folder / self.home
        spans = (
            components.from_metadata(home / "metadata.sqlite", used.started)
            if self.in_tfx
            else components.from_record(home)
        )
        return components.seconds(used, spans)

    def quality(self, folder: Path) -> dict[str, float]:
        """AUC and number of evaluated examples of the first run's model."""
        evaluations = (folder / self.home / "artifacts" / "Evaluator" / "evaluation").iterdir()
        first = min(evaluations, key=lambda one: one.stat().st_mtime)
        if not (first / FILE_NAME).exists():
            return measure.json_of("benchmarks.stock.auc", str(first))
        evaluation = read_evaluation(first)
        return {"auc": evaluation.metrics["auc"] or 0.0, "example_count": evaluation.example_count}


def engines() -> dict[str, Engine]:
    """The engines by name; the others are compared with the first."""
    config = load(CONFIG)
    source = config.data.source
    assert isinstance(source, FileSource)
    (data,) = resolve(source.path)
    stock = ["benchmarks.stock.pipeline", str(CONFIG), str(Path(data).parent), "out"]
    return {
        "ours": Engine("Headrace", ["headrace", "run", str(CONFIG)], "runs/chicago-taxi", in_tfx=False),
        "same": Engine("same components, LocalDagRunner", ["benchmarks.same_components", str(CONFIG), "out"], "out"),
        "stock": Engine("stock TFX", stock, "out"),
        "example": Engine("stock TFX, as in its example", [*stock, "--as-example"], "out"),
    }


def run_twice(engine: Engine) -> dict[str, Any]:
    """Figures of the first and of the unchanged second run in a new folder, and of the model's quality."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {}
        for run in RUNS:
            used = measure.run_process(engine.command, folder, folder / "log")
            if not list(folder.glob("**/serving/**/saved_model.pb")):
                raise SystemExit(
                    f"{engine.title} pushed no model:\n{(folder / 'log').read_text(encoding='utf-8')[-3000:]}"
                )
            found[run] = {**used.figures(), **engine.components(folder, used)}
        return {**found, "quality": engine.quality(folder)}


def measure_all(repeats: Mapping[str, int]) -> dict[str, dict[str, measure.Figures]]:
    """The medians of each engine's figures."""
    known = engines()
    found = measure.in_turn(repeats, lambda name: run_twice(known[name]))
    return {
        name: {part: measure.medians([one[part] for one in runs]) for part in (*RUNS, "quality")}
        | {"repeats": {"runs": len(runs)}}
        for name, runs in found.items()
    }


def section(found: Mapping[str, Mapping[str, measure.Figures]]) -> Section:
    """The tables and notes."""
    parts = [
        ("A first run in an empty folder, and a second one with nothing changed", _totals(found)),
        ("Seconds of each component in the first run", _components(found)),
    ]
    return Section("The whole local run", parts, NOTES, DETAILS)


def _totals(found: Mapping[str, Mapping[str, measure.Figures]]) -> Table:
    rows = [
        [
            engines()[name].title,
            *(f"{of[run][figure]:.1f}" for run in RUNS for figure in ("wall_seconds", "cpu_seconds")),
            f"{of['first']['peak_mb']:,.0f}",
            f"{of['quality']['auc']:.4f}",
            f"{of['repeats']['runs']:.0f}",
        ]
        for name, of in found.items()
    ]
    return Table(["", "first, wall s", "CPU s", "unchanged, wall s", "CPU s", "peak MB", "AUC", "runs"], rows)


def _components(found: Mapping[str, Mapping[str, measure.Figures]]) -> Table:
    rows = [
        [name, *(f"{of['first'][name]:.1f}" if name in of["first"] else "" for of in found.values())]
        for name in COMPONENTS
    ]
    return Table(["", *(engines()[name].title for name in found)], rows)


def main() -> None:
    """Measure and print."""
    quick = {"--quick": {"action": "store_true"}}
    measure.command(__doc__, lambda given: measure_all(QUICK if given.quick else REPEATS), section, options=quick)


if __name__ == "__main__":
    main()
