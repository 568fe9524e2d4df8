"""TFX's Tuner executor over a search; as a program, for tests that kill it: python tuner_program.py SEARCH TRIAL BATCH
SIGNAL.

SEARCH: a file with the arguments of `do` as JSON. The process gets the signal in that trial after this many batches.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tfx.components.tuner import executor
from tfx.dsl.components.base import base_executor
from tfx.types import standard_artifacts


def do(examples: str, graph: str, folder: str, config: dict[str, Any]) -> None:
    """Search with that custom config; what the executor writes lies in the folder `best` and `results` of `folder`."""
    inputs = {
        "examples": [artifact(standard_artifacts.Examples, Path(examples))],
        "transform_graph": [artifact(standard_artifacts.TransformGraph, Path(graph))],
    }
    inputs["examples"][0].split_names = '["train", "eval"]'
    outputs = {
        "best_hyperparameters": [artifact(standard_artifacts.HyperParameters, Path(folder, "best"))],
        "tuner_results": [artifact(standard_artifacts.TunerResults, Path(folder, "results"))],
    }
    properties = {"tuner_fn": "headrace.trainer.tuning.tuner.tuner_fn", "custom_config": json.dumps(config)}
    properties |= {"train_args": "{}", "eval_args": "{}"}
    context = base_executor.BaseExecutor.Context(tmp_dir=folder, unique_id="1")
    executor.Executor(context).Do(inputs, outputs, properties)


def artifact(kind: Any, folder: Path) -> Any:
    """An artifact that lies there."""
    made = kind()
    made.uri = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return made


def end_in(trial: int, batch: int, number: signal.Signals) -> None:
    """Let the process get the signal there, once a checkpoint is written."""
    import headrace.trainer.fitting
    from headrace.trainer.callbacks import checkpoint

    class Ending(checkpoint.Checkpoint):
        trials = 0

        def on_train_begin(self, logs: Any = None) -> None:
            super().on_train_begin(logs)
            Ending.trials += 1

        def on_train_batch_end(self, at: int, logs: Any = None) -> None:
            super().on_train_batch_end(at, logs)
            if Ending.trials == trial and self.batches >= batch:
                assert self.last or number != signal.SIGKILL
                os.kill(os.getpid(), number)

    headrace.trainer.fitting.Checkpoint = Ending  # type: ignore[attr-defined]


if __name__ == "__main__":
    import keras
    from trainings import leave_graphs_as_they_are

    from headrace.common.logs import log_to_stdout

    log_to_stdout()
    keras.utils.disable_interactive_logging()
    leave_graphs_as_they_are()
    end_in(int(sys.argv[2]), int(sys.argv[3]), signal.Signals[sys.argv[4]])
    do(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
