"""How long the training step of the worked examples waits for its input.

    python -m benchmarks.training_wait                    a table: runs the examples first, then takes five minutes more
    python -m benchmarks.training_wait --root runs        with what earlier runs below `runs` have transformed

Each trains in turn, half a second of this input and then of that, on our pipeline and on batches that are ready: one
repeated, and all of an epoch. All have the same `steps_per_execution` and the same shapes: where a control's batches
are known to have 256 examples and ours may have fewer, TensorFlow compiles a faster step for it, and the difference is
no wait.

What is timed is each call of Keras' train function, which makes `steps_per_execution` steps, as benchmarks/turns.py
does it: a low percentile of a kind's calls counts. If this many steps make a call long, as on pydoc, all make
fewer. The first and last call of an epoch are counted apart: where there is a new iterator for each epoch the
first has to make it, and the last is short. Where one iterator serves all epochs the input's threads get a core of
their own, as they have it on a machine without other work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ |= {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

from benchmarks import turns
from benchmarks.measure import PROJECT, json_of, run_process
from benchmarks.tables import Section, Table

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from headrace.trainer.input.batches import InputSplit

CONFIGS = PROJECT / "configs"
EXAMPLES = {"taxi": 0.2, "digits": 0.2, "pydoc": 0.6}
"""The share of the time that each is measured for: a step of pydoc takes as long as eighty of taxi."""
KINDS = {"one": "one batch", "epoch": "an epoch's batches", "ours": "ours"}
SECONDS, QUICK = 220.0, 70.0
"""Of measuring, of all examples."""
CALL, TURN = 0.2, 0.5
"""Seconds of a call, about, where one would take longer than a turn; and of one kind before the next."""
CALLS = 12
"""Calls that an epoch is cut into, at most."""
LEAST = 4
"""Epochs' worth of calls that are timed of each kind."""


def measure_all(root: Path | None, seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Of each example; those that were not run below the root are run. Raises SystemExit where one fails."""
    with tempfile.TemporaryDirectory() as folder:
        if root is None:
            for example in EXAMPLES:
                _run(example, Path(folder))
        return [
            json_of(
                __spec__.name, "--example", example, "--root", str(root or folder), "--seconds", str(share * seconds)
            )
            for example, share in EXAMPLES.items()
        ]


def _run(example: str, root: Path) -> None:
    """The whole example, with a short training. Its evaluation may be as bad as it likes: it ends well all the same."""
    settings = {"pipeline.root": root, "train.epochs": 1, "deploy.push": root / "serving"}
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "headrace", "run", str(CONFIGS / f"{example}.yaml"), *given]
    run_process(command, root, root / f"{example}.log")


def measure(example: str, root: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds of a step with each input, and of the processor to make a batch."""
    model, split, together = _prepared(example, root)
    assert split.steps is not None
    one_iterator = split.endless is not None and split.steps % together == 0
    ours = split.endless() if one_iterator and split.endless else split.dataset
    inputs = {**_ready(split, endless=one_iterator), "ours": ours}
    together = _shortened(model, inputs["one"], together, split.steps)
    steps = together if one_iterator else split.steps  # a call is like the next: an epoch as good as any
    before = _threads()
    trainings = {kind: Training(model, dataset, steps, together, one_iterator) for kind, dataset in inputs.items()}
    took = min(training.warm_up() for training in trainings.values())
    if one_iterator:
        _part(before)
    calls = math.ceil(steps / together)
    each, shares = turns.calls_of_a_turn(round(TURN / took), calls), turns.shares(calls)
    callables = {kind: training.call for kind, training in trainings.items()}
    timed = turns.in_turn(callables, seconds, each, least=math.ceil(LEAST * calls / each))
    return {
        "example": example,
        "steps_per_execution": together,
        "calls": sum(map(len, timed["ours"])),
        "step_ms": {kind: 1000 * turns.low(timed[kind], shares) / steps for kind in timed},
        "noise": turns.noise(timed["one"], timed["ours"], shares),
        "making_ms": 1000 * _making(ours if one_iterator else ours.repeat(), split.steps),
    }


class Training:
    """Trains as Keras' `fit` does it, call by call.

    steps: of an epoch; one_iterator: whether one serves all epochs.
    """

    def __init__(
        self, model: keras.Model, dataset: tf.data.Dataset, steps: int, together: int, one_iterator: bool
    ) -> None:
        self._train, self._dataset, self._calls = model.train_function, dataset, math.ceil(steps / together)
        self._one_iterator, self._position = one_iterator, 0
        self._iterator = iter(dataset) if one_iterator else None

    def call(self) -> turns.Timed:
        """The next steps, as many as are one execution."""
        begin = time.perf_counter()
        if self._position == 0 and not self._one_iterator:
            self._iterator = iter(self._dataset)
        self._train(self._iterator)
        seconds = time.perf_counter() - begin
        place = turns.place(self._position, self._calls)
        self._position = (self._position + 1) % self._calls
        return turns.Timed(place, seconds)

    def warm_up(self) -> float:
        """Three epochs to warm up, as a graph is traced again for the second and third iterator; seconds of a call."""
        return statistics.median_low(self.call().seconds for _ in range(3 * self._calls))


def _shortened(model: keras.Model, dataset: tf.data.Dataset, together: int, steps: int) -> int:
    """How many steps a call makes: of those of an epoch fewer than it would, if they take long."""
    model.train_function(iter(dataset))  # traces
    begin = time.perf_counter()
    model.train_function(iter(dataset))
    took = time.perf_counter() - begin
    if took <= TURN:
        return together
    together = max(1, int(together * CALL / took), math.ceil(steps / CALLS))
    model.steps_per_execution = together
    model.make_train_function(force=True)
    return together


def _prepared(example: str, root: Path) -> tuple[keras.Model, InputSplit, int]:
    import keras
    import tensorflow_transform as tft

    from headrace.configs.loading.loader import load
    from headrace.pipeline.verbs.training_input import transformed
    from headrace.trainer import executions
    from headrace.trainer.fitting import choose_steps_per_execution
    from headrace.trainer.input.inputs import plan_inputs
    from headrace.trainer.model import build_model, compile_model
    from headrace.trainer.models.layers import adapt_scale
    from headrace.trainer.sections import TrainerSections

    config = load(CONFIGS / f"{example}.yaml", None, (f"pipeline.root={root}",))
    graph, examples = transformed(config)
    sections, output = TrainerSections.of(config), tft.TFTransformOutput(str(graph))
    plan = plan_inputs([f"{examples}/Split-train/*"], [f"{examples}/Split-eval/*"], output, sections)
    inputs = plan.open(sections.train)
    keras.utils.set_random_seed(0)
    model = build_model(sections, output)
    adapt_scale(model, inputs.train, sections.label)
    one_iterator = inputs.train.endless is not None
    together = choose_steps_per_execution(sections.train, inputs.train.steps, one_iterator=one_iterator).steps
    compile_model(model, sections.label, sections.train, together, None)
    executions.install(model)
    model.make_train_function()
    return model, inputs.train, together


def _ready(split: InputSplit, *, endless: bool) -> dict[str, tf.data.Dataset]:
    """Batches that cost nothing to make, in as many steps to an epoch; of ours, so that their shapes are too."""
    from headrace.trainer.input.reading import AHEAD

    assert split.steps is not None
    steps = split.steps
    kept = {"one": split.peek.take(1).cache().repeat(), "epoch": split.peek.cache().repeat()}
    return {kind: (each if endless else each.take(steps)).prefetch(AHEAD) for kind, each in kept.items()}


def _making(endless: tf.data.Dataset, steps: int) -> float:
    """Seconds of the processor to make a batch, with nothing that trains."""
    best = math.inf
    for _ in range(4):
        last = iter(endless.enumerate().skip(20 * steps))
        begin = time.process_time()
        next(last)
        best = min(best, (time.process_time() - begin) / (20 * steps))
    return best


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
    """The table and notes."""
    head = ["", *KINDS.values(), "wait", "noise", "beside an epoch's", "ms of a processor to make a batch"]
    table = Table(head, [list(_row(each)) for each in found])
    notes = (
        "The wait is how much longer a step takes on our input than on one batch that is in memory and repeated.",
        f"The {100 * turns.LOW:.0f}th percentile of alternating calls of the train function. Other work on the machine"
        " is in the noise; if that is not well below the wait, the result means nothing.",
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
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measuring, in all")
    given = parser.parse_args()
    if given.example:
        print(json.dumps(measure(given.example, given.root, given.seconds)))
    else:
        print(section(measure_all(given.root, given.seconds)).text())


if __name__ == "__main__":
    main()
