"""How long the training step of the worked examples waits for its input.

    python -m benchmarks.training_wait                    a table: runs the examples first, then takes two minutes more
    python -m benchmarks.training_wait --root runs        with what earlier runs below `runs` have transformed

Each trains on, an epoch of this input, some of that, on our pipeline and on batches that are ready: one repeated, and
all of an epoch. All have the same `steps_per_execution` and the same shapes: where a control's batches are known to
have 256 examples and ours may have fewer, TensorFlow compiles a faster step for it, and the difference is no wait.

Other work on the machine only ever adds time, so of each the 5th percentile of all epochs counts; the noise is what
that of other epochs of the kind would differ by (bootstrap). Where one iterator serves all epochs the input's threads
get a core of their own, as they have it on a machine without other work.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

os.environ |= {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

from benchmarks.measure import json_of
from benchmarks.tables import Section, Table

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from trainer.input.pipeline import Split

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
EXAMPLES = ("taxi", "digits", "pydoc")
KINDS = {"one": "one batch", "epoch": "an epoch's batches", "ours": "ours"}
SECONDS, BLOCK = 40.0, 0.15
"""Of an example in all, and of one kind before the next; at least an epoch."""
LEAST = 6
"""Blocks of each kind."""

Blocks = list[list[float]]
"""Seconds of epochs, by the turn that they were trained in."""


def measure_all(root: Path | None) -> list[dict[str, Any]]:
    """Of each example; those that were not run below the root are run."""
    with tempfile.TemporaryDirectory() as folder:
        if root is None:
            for example in EXAMPLES:
                _run(example, Path(folder))
        return [json_of(__spec__.name, "--example", each, "--root", str(root or folder)) for each in EXAMPLES]


def _run(example: str, root: Path) -> None:
    """The whole example, with a short training. Its evaluation may be as bad as it likes."""
    settings = {"pipeline.root": root, "train.epochs": 1, "deploy.push": root / "serving"}
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "pipeline", "run", str(CONFIGS / f"{example}.yaml"), *given]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(example: str, root: Path) -> dict[str, Any]:
    """Milliseconds of a step with each input, and of the processor to make a batch."""
    model, split, together = _prepared(example, root)
    assert split.steps is not None
    one_iterator = split.endless is not None and split.steps % together == 0
    ours = split.endless() if one_iterator and split.endless else split.dataset
    inputs = {**_ready(split, endless=one_iterator), "ours": ours}
    before = _threads()
    epochs = {kind: _epoch(model, dataset, split.steps, together, one_iterator) for kind, dataset in inputs.items()}
    for epoch in epochs.values():
        epoch()
        epoch()
    if one_iterator:
        _part(before)
    spent = _in_turn(epochs)
    return {
        "example": example,
        "steps_per_execution": together,
        "epochs": min(sum(map(len, blocks)) for blocks in spent.values()),
        "step_ms": {kind: 1000 * _low(blocks) / split.steps for kind, blocks in spent.items()},
        "noise": _noise(spent["one"], spent["ours"]),
        "making_ms": 1000 * _making(ours if one_iterator else ours.repeat(), split.steps),
    }


def _prepared(example: str, root: Path) -> tuple[keras.Model, Split, int]:
    import keras
    import tensorflow_transform as tft

    from configs.loader import load
    from pipeline.verbs.tune_input import transformed
    from trainer.fitting import steps_per_execution
    from trainer.input.inputs import open_inputs
    from trainer.label_scale import adapt
    from trainer.objective import compile_model
    from trainer.run import build_model
    from trainer.sections import TrainerSections

    config = load(CONFIGS / f"{example}.yaml", None, (f"pipeline.root={root}",))
    graph, files = transformed(config)
    sections, output = TrainerSections.of(config), tft.TFTransformOutput(str(graph))
    inputs = open_inputs(files, [file.replace("Split-train", "Split-eval") for file in files], output, sections)
    keras.utils.set_random_seed(0)
    model = build_model(sections, output)
    adapt(model, inputs.train)
    together = steps_per_execution(sections.train, inputs.train.steps)
    compile_model(model, sections.label, sections.train, together, None)
    model.make_train_function()
    return model, inputs.train, together


def _ready(split: Split, *, endless: bool) -> dict[str, tf.data.Dataset]:
    """Batches that cost nothing to make, in as many steps to an epoch; of ours, so that their shapes are too."""
    import tensorflow as tf

    assert split.steps is not None
    steps = split.steps
    kept = {"one": split.peek.take(1).cache().repeat(), "epoch": split.peek.cache().repeat()}
    return {kind: (each if endless else each.take(steps)).prefetch(tf.data.AUTOTUNE) for kind, each in kept.items()}


def _epoch(
    model: keras.Model, dataset: tf.data.Dataset, steps: int, together: int, one_iterator: bool
) -> Callable[[], None]:
    """Trains for an epoch, as Keras' `fit` does it."""
    kept = iter(dataset) if one_iterator else None

    def epoch() -> None:
        iterator = kept or iter(dataset)
        for _ in range(math.ceil(steps / together)):
            model.train_function(iterator)

    return epoch


def _in_turn(epochs: Mapping[str, Callable[[], None]]) -> dict[str, Blocks]:
    """Seconds of each epoch."""
    spent: dict[str, Blocks] = {kind: [] for kind in epochs}
    order, end = list(epochs), time.monotonic() + SECONDS
    while time.monotonic() < end or len(spent[order[0]]) < LEAST:
        for kind in order:
            epochs[kind]()  # what lies in the processor's caches is now of this kind
            times = [time.perf_counter()]
            while len(times) < 2 or times[-1] - times[0] < BLOCK:
                epochs[kind]()
                times.append(time.perf_counter())
            spent[kind].append([after - begin for begin, after in pairwise(times)])
        order.reverse()
    return spent


def _making(endless: tf.data.Dataset, steps: int) -> float:
    """Seconds of the processor to make a batch, with nothing that trains."""
    best = math.inf
    for _ in range(4):
        last = iter(endless.enumerate().skip(20 * steps))
        begin = time.process_time()
        next(last)
        best = min(best, (time.process_time() - begin) / (20 * steps))
    return best


def _low(blocks: Blocks) -> float:
    times = sorted(seconds for block in blocks for seconds in block)
    return times[len(times) // 20]


def _noise(*kinds: Blocks) -> float:
    """The standard deviation of a ratio between kinds."""
    random = Random(0)
    ratios = [operator.truediv(*(_low(random.choices(blocks, k=len(blocks))) for blocks in kinds)) for _ in range(200)]
    return statistics.stdev(ratios)


def _threads() -> set[int]:
    tasks = Path("/proc/self/task")
    return {int(each.name) for each in tasks.iterdir()} if tasks.exists() else set()


def _part(others: set[int]) -> None:
    """Give the threads that are no others a core of their own, if there is one."""
    cores = sorted(os.sched_getaffinity(0)) if others else []
    if len(cores) < 2:
        return
    for thread in _threads():
        os.sched_setaffinity(thread, cores[:-1] if thread in others else cores[-1:])


def section(found: list[dict[str, Any]]) -> Section:
    """The figures for people."""
    head = ["", *KINDS.values(), "wait", "noise", "beside an epoch's", "ms of a processor to make a batch"]
    table = Table(head, [list(_row(each)) for each in found])
    notes = (
        "The wait is what a step takes longer on our input than on one batch that is kept ready and repeated.",
        "The 5th percentile of all epochs, in turn. Other work on the machine is in the noise, and where that is not"
        " well below the wait, nothing was measured.",
    )
    return Section("Waiting for input", [("Milliseconds of a step of the worked examples", table)], notes)


def _row(found: Mapping[str, Any]) -> Iterator[str]:
    step = found["step_ms"]
    yield found["example"]
    yield from (f"{step[kind]:.3f}" for kind in KINDS)
    wait, beside_epoch = (1 - step[control] / step["ours"] for control in ("one", "epoch"))
    yield from (f"{wait:.1%}", f"± {found['noise']:.1%}", f"{beside_epoch:.1%}")
    yield f"{found['making_ms']:.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", choices=EXAMPLES, help="one alone, as JSON")
    parser.add_argument("--root", type=Path, help="where the examples were run")
    given = parser.parse_args()
    print(json.dumps(measure(given.example, given.root)) if given.example else section(measure_all(given.root)).text())


if __name__ == "__main__":
    main()
