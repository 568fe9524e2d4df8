"""A Trainer in a process of its own, for tests that kill it: python checkpoint_program.py JOB [BATCH].

JOB: a file with the arguments of `run_fn` as JSON. BATCH: kill the process with SIGKILL after this many batches; with
`t` in front, send it SIGTERM then; with `e` in front, in the evaluation after that many; or `alone`: do not export what
was trained. PACE: seconds of each execution.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import keras
from trainings import leave_graphs_as_they_are, train_alone

from headrace.common.logs import log_to_stdout
from headrace.trainer.callbacks import checkpoint
from headrace.trainer.run import run_fn


class Killer(checkpoint.Checkpoint):
    """Ends the process at the given batch."""

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        time.sleep(float(os.environ.get("PACE", "0")))
        if not WHERE.startswith("e") and self._position.batches >= BATCH:
            os.kill(os.getpid(), signal.SIGTERM if WHERE.startswith("t") else signal.SIGKILL)

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        super().on_test_begin(logs)
        if WHERE.startswith("e") and self._position.batches >= BATCH:
            os.kill(os.getpid(), signal.SIGTERM)


WHERE = (sys.argv[2:] or [""])[0]
if WHERE not in {"", "alone"}:
    BATCH = int(WHERE.lstrip("te"))
    import headrace.trainer.fitting

    headrace.trainer.fitting.Checkpoint = Killer  # type: ignore[attr-defined]
log_to_stdout()
leave_graphs_as_they_are()
keras.utils.disable_interactive_logging()
fn_args = SimpleNamespace(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
if WHERE == "alone":
    train_alone(fn_args)
else:
    run_fn(fn_args)
