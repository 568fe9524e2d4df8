"""One worker of a cluster, for tests that need several: trains one job after the other, and may end within one.

    TF_CONFIG=... python cluster_program.py JOBS

JOBS: a file with a list of {"job": a Job as JSON, "end": null or [signal, number of the worker, batch]}: at that batch
the worker gets the signal. Prints a line of JSON for each job: what it came to.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import keras
from trainings import leave_graphs_as_they_are

import headrace.trainer.fitting
import headrace.trainer.run
from headrace.common.errors import TrainingError
from headrace.common.logs import log_to_stdout
from headrace.trainer.callbacks import checkpoint
from headrace.trainer.devices.strategy import choose_strategy, detect_hardware, set_up
from headrace.trainer.job import Job
from headrace.trainer.service import ports

CHOICE = choose_strategy(
    Job.from_json(json.dumps(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))[0]["job"])).sections.train,
    detect_hardware(),
)
STRATEGY = set_up(CHOICE)  # one for all jobs: a process can set up a single one


def reached(port: int) -> list[str]:
    """Addresses of this machine other than the loopback at which this worker's server answers."""
    found = []
    for address in ports._addresses():
        with contextlib.suppress(OSError), socket.create_connection((address, port), 0.3):
            found.append(address)
    return found


assert CHOICE.hardware.cluster
REACHED = reached(CHOICE.hardware.cluster.local_port)
headrace.trainer.run.set_up = lambda _: STRATEGY  # type: ignore[attr-defined, assignment]


class Ending(checkpoint.Checkpoint):
    """Ends the process at the given batch."""

    end: tuple[str, int, int] | None = None

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        name, number, at = self.end or ("", -1, 0)
        cluster = CHOICE.hardware.cluster
        if cluster and cluster.number == number and batch + 1 + self.batches_before >= at:
            os.kill(os.getpid(), getattr(signal, name))
            Ending.end = None
        super().on_train_batch_end(batch, logs)


headrace.trainer.fitting.Checkpoint = Ending  # type: ignore[attr-defined]
log_to_stdout()
leave_graphs_as_they_are()
keras.utils.disable_interactive_logging()
for reported in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    Ending.end = reported["end"]
    try:
        headrace.trainer.run.train(Job.from_json(json.dumps(reported["job"])), CHOICE)
        print(json.dumps({"done": True, "reached": REACHED}), flush=True)
    except TrainingError as error:
        print(json.dumps({"kind": type(error).__name__, "error": str(error)}), flush=True)
    except Exception as error:  # a worker is gone
        print(json.dumps({"kind": type(error).__name__, "error": str(error)}), flush=True)
        sys.stdout.flush()
        os._exit(1)
assert threading.current_thread() is threading.main_thread()
