"""All benchmarks, one after another: the whole run, one after an edit, ingest of CSV, of Parquet and of wide tables,
statistics, Transform of wide tables, images and texts, click logs, nights of a window, training input and the wait for
it, embedding tables, evaluation, predictions, also of wide tables and click logs, and Beam's runners.

python -m benchmarks                               tables; about three quarters of an hour on two idle cores
python -m benchmarks --quick                       one round of the sizes that matter; about twelve minutes
python -m benchmarks --only ingest
python -m benchmarks --write docs/benchmarks.md    puts what was measured in place of what the page said of it
python -m benchmarks --json figures.json           the figures, for programs
python -m benchmarks --check                       exits with 1 if a ratio is below its floor (benchmarks/floors.py)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import (
    beam_runners,
    criteo,
    edited_run,
    embedding_tables,
    evaluator,
    images_texts,
    ingest,
    ingest_parquet,
    ingest_wide,
    measure,
    nightly,
    predict,
    predict_tables,
    statistics_gen,
    training_wait,
    transform_wide,
    whole_run,
)
from benchmarks.document import Machine, updated
from benchmarks.floors import judged, without_ratio
from benchmarks.tables import Section

Outcome = tuple[Any, Section]
"""The figures of a benchmark, and what is printed of them."""
Benchmark = Callable[[bool], Outcome]
"""Measures. Its argument: whether to be quick."""


def main() -> None:
    """Measure, print each table as soon as it is complete, and write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs and sizes")
    parser.add_argument("--only", choices=list(BENCHMARKS), action="append", help="can be repeated")
    parser.add_argument("--write", type=Path, metavar="FILE", help="bring this Markdown page up to date")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--check", action="store_true", help="compare the ratios with their floors")
    given = parser.parse_args()
    machine = Machine.here()
    outcomes: dict[str, Outcome] = {}
    for name in given.only or BENCHMARKS:
        outcomes[name] = BENCHMARKS[name](given.quick)
        print(outcomes[name][1].text(), end="\n\n", flush=True)
    figures = {name: own for name, (own, _) in outcomes.items()}
    if given.write:
        page = given.write.read_text(encoding="utf-8") if given.write.exists() else "# Benchmarks\n\n"
        sections = [section for _, section in outcomes.values()]
        given.write.write_text(updated(page, machine, figures, sections), encoding="utf-8")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if given.check:
        check(figures, quick=given.quick)


def check(figures: Mapping[str, Any], *, quick: bool) -> None:
    """Print each ratio with its floor.

    Raises SystemExit if a ratio is below its floor, if the benchmarks that ran have no floors, or if a full run lacks
    the figures of a floor, which would then hold whatever happens.
    """
    found = judged(figures)
    lost = [] if quick else without_ratio(figures)
    if lost:
        names = "; ".join(f"{floor.benchmark}: {floor.what}" for floor in lost)
        raise SystemExit(f"{len(lost)} floors found no figures to judge: {names}")
    print("== Floors ==\n", *sorted(found, key=lambda one: not one.holds), sep="\n")
    below = [one for one in found if not one.holds]
    if below or not found:
        raise SystemExit(
            f"{len(below)} of {len(found)} ratios are below their floors" if found else "there is no floor for this"
        )


def _repeated(benchmark: ModuleType) -> Benchmark:
    """A benchmark that measures REPEATS, or QUICK if it should be quick."""

    def run(quick: bool) -> Outcome:
        found = benchmark.measure_all(benchmark.QUICK if quick else benchmark.REPEATS)
        return found, benchmark.section(found)

    return run


def _edited_run(quick: bool) -> Outcome:
    found = edited_run.measure_all(edited_run.QUICK if quick else edited_run.EPOCHS)
    return found, edited_run.section(found)


def _ingest_wide(quick: bool) -> Outcome:
    rows = ingest_wide.measure_all(ingest_wide.QUICK if quick else ingest_wide.REPEATS, fewer=not quick)
    return rows, ingest_wide.section(rows)


def _training_input(quick: bool) -> Outcome:
    result = measure.json_of("benchmarks.training_input", "--json", *(("--rounds", "2") if quick else ()))
    from benchmarks import training_input  # imports TensorFlow, so after the measuring

    return result, training_input.section(result)


def _training_wait(quick: bool) -> Outcome:
    found = training_wait.measure_all(None, training_wait.QUICK if quick else training_wait.SECONDS)
    return found, training_wait.section(found)


def _criteo(quick: bool) -> Outcome:
    rows = criteo.measure_all(*((criteo.QUICK_ROWS, criteo.QUICK) if quick else (criteo.ROWS, criteo.REPEATS)))
    return rows, criteo.section(rows)


def _beam_runners(quick: bool) -> Outcome:
    found = beam_runners.measure_all(beam_runners.QUICK if quick else beam_runners.FULL)
    return found, beam_runners.section(found)


def _nightly(quick: bool) -> Outcome:
    found = nightly.measure_all(beside_stock=()) if quick else nightly.measure_all()
    return found, nightly.section(found)


BENCHMARKS: dict[str, Benchmark] = {
    "whole_run": _repeated(whole_run),
    "edited_run": _edited_run,
    "ingest": _repeated(ingest),
    "ingest_parquet": _repeated(ingest_parquet),
    "ingest_wide": _ingest_wide,
    "statistics_gen": _repeated(statistics_gen),
    "transform_wide": _repeated(transform_wide),
    "images_texts": _repeated(images_texts),
    "criteo": _criteo,
    "nightly": _nightly,
    "training_input": _training_input,
    "training_wait": _training_wait,
    "embedding_tables": _repeated(embedding_tables),
    "evaluator": _repeated(evaluator),
    "predict": _repeated(predict),
    "predict_tables": _repeated(predict_tables),
    "beam_runners": _beam_runners,
}


if __name__ == "__main__":
    main()
