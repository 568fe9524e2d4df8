"""The evaluation of a model: our Evaluator and TFX's, which runs TFMA, at equal work.

    python -m benchmarks.evaluator            a table
    python -m benchmarks.evaluator --json     the same figures as JSON

The model and the examples are those of benchmarks.predict, and the metrics, slices and thresholds those of the taxi
config. Few rows show what an evaluation costs whatever their number. Ours also at many, as the cost of a row must not
grow with them; stock would need half an hour. The benchmark fails if the two differ in the number of examples of a
slice or in a metric.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import measure, predict
from benchmarks.ingest import beam_pipeline, measured
from benchmarks.tables import Section, Table

if TYPE_CHECKING:
    from tfx.types import Artifact

ONE, SMALL, LARGE = 1, 8, 64
"""Copies of the taxi data: 15,002, 120,016 and 960,128 rows."""
REPEATS = {ONE: {"ours": 3, "stock": 3}, SMALL: {"ours": 3, "stock": 1}, LARGE: {"ours": 3}}
QUICK = {ONE: {"ours": 3, "stock": 1}, SMALL: {"ours": 1, "stock": 1}, LARGE: {"ours": 1}}
ENGINES = {"ours": "Headrace", "stock": "stock Evaluator (TFMA)"}
EVALUATION = "evaluation"
CLOSE = {"auc": 1e-3}
"""How far a metric may differ: TFMA's histogram for the AUC has 10,000 buckets. All others: FLOAT32."""
FLOAT32 = 1e-5


def prepare(engine: str, folder: Path, out: Path) -> Iterator[None]:
    """Set up an executor. The code after the first yield is measured, the loading of the model included."""
    import tfx.components.evaluator.executor as stock
    from tfx.components.util import examples_utils
    from tfx.proto import example_gen_pb2
    from tfx.types import Channel, artifact_utils, standard_artifacts

    import headrace
    from headrace.components.evaluation import component, evaluate  # noqa: F401  # as the executor does

    config = headrace.load(measure.PROJECT / "configs" / "taxi.yaml")
    examples, model = standard_artifacts.Examples(), standard_artifacts.Model()
    examples.uri, model.uri = str(folder / "examples"), str(folder / predict.MODEL)
    examples.split_names = artifact_utils.encode_split_names(["all"])
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    for artifact in (examples, model):
        artifact.set_string_custom_property("tfx_version", "1.21.0")  # readers infer the file layout from it
    node = component.evaluator(
        examples=Channel(standard_artifacts.Examples),
        model=Channel(standard_artifacts.Model),
        baseline=Channel(standard_artifacts.Model),
        label=config.label,
        evaluate=config.evaluate.model_copy(update={"importance": "none"}),  # which TFMA does not measure
        split="all",
    )
    class_ = component.Executor if engine == "ours" else stock.Executor
    executor = class_(class_.Context(make_beam_pipeline_fn=beam_pipeline))
    yield
    executor.Do({"examples": [examples], "model": [model]}, _outputs(out), node.exec_properties)
    yield


def _outputs(out: Path) -> dict[str, list[Artifact]]:
    from tfx.types import standard_artifacts

    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(out / EVALUATION), str(out / "blessing")
    return {"evaluation": [evaluation], "blessing": [blessing]}


def compared(ours: Path, stock: Path) -> int:
    """How many metrics of all slices are the same in both; raises SystemExit for one that is not."""
    count = 0
    for (where, found), (_, expected) in zip(_metrics(ours), _metrics(stock), strict=True):
        defined = [name for name, value in found.items() if not math.isnan(value)]  # TFMA has an AUC of 0 of one class
        for name in defined:
            if not math.isclose(found[name], expected[name], rel_tol=CLOSE.get(name, FLOAT32)):
                raise SystemExit(f"{name} of {where} differs: {found[name]}, by TFMA {expected[name]}")
        count += len(defined)
    return count


def _metrics(folder: Path) -> list[tuple[str, dict[str, float]]]:
    """The slicing and the values by name of each slice, of the files that both write.

    In order of slicings, counts and losses, as TFMA names the slices by what Transform makes of their values.
    """
    import tensorflow_model_analysis as tfma

    found = []
    for key, values in tfma.load_eval_result(str(folder / EVALUATION)).slicing_metrics:
        metrics = {name: _value(value) for name, value in values[""][""].items()}
        found.append((", ".join(column for column, _ in key) or "all examples", metrics))
    return sorted(found, key=lambda one: (one[0], one[1]["example_count"], one[1]["binary_crossentropy"]))


def _value(loaded: Mapping[str, Any]) -> float:
    """A metric as TFMA's loader has it: ours have an interval, stock's have none. NaN if it has no value."""
    return float(loaded["boundedValue"]["value"] if "boundedValue" in loaded else loaded.get("doubleValue", math.nan))


def measure_here(engine: str, folder: str, last: str) -> measure.Figures | int:
    """Run one engine in this process, or make what all of them need, or compare what they wrote."""
    if engine == "prepare":
        return predict.prepare(Path(folder), int(last))
    if engine == "compare":
        return compared(Path(folder, "ours"), Path(folder, "stock"))
    return measured(prepare(engine, Path(folder), Path(folder, engine)))


def measure_all(repeats: Mapping[int, Mapping[str, int]]) -> list[dict[str, float | str]]:
    """One row of figures for each size and engine: medians over fresh processes, ours and stock in turn."""
    rows: list[dict[str, float | str]] = []
    for copies, engines in repeats.items():
        with tempfile.TemporaryDirectory() as folder:
            number = _in_fresh_process(folder, "prepare", str(copies))
            found = measure.in_turn(engines, functools.partial(_in_fresh_process, folder))
            same = _in_fresh_process(folder, "compare") if "stock" in engines else 0
            rows += [
                {"copies": copies, "engine": engine, "metrics": same, **measure.throughput(number, found[engine])}
                for engine in engines
            ]
    return rows


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The figures for people."""
    cells = [[ENGINES[row["engine"]], *measure.throughput_cells(row)] for row in rows]
    compared = [[row for row in rows if row["copies"] == copies] for copies in (ONE, SMALL)]
    notes = (
        *(f"{both[0]['rows']:,.0f} rows: {measure.by_stock(both, 1)}" for both in compared),
        "Equal work: a gzip file of tf.Examples and the exported model of the taxi example, its four metrics in two"
        f" slicings, to the same files. All {compared[0][0]['metrics']} metrics are those of TFMA: to five digits,"
        " the AUC to three, as TFMA counts it in 10,000 buckets.",
    )
    return Section("Evaluator", [("Evaluation of a model", Table(["", *measure.THROUGHPUT], cells))], notes)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)


def _in_fresh_process(folder: str, engine: str, last: str = "") -> Any:
    return measure.json_of("benchmarks.evaluator", "--child", engine, folder, last)


if __name__ == "__main__":
    main()
