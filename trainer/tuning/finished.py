"""The finished trials of a search that may be interrupted, kept beside the checkpoints for the next run of the same.

finished = Finished.of(job, tune)
trial = finished.take(values, epochs)      # None: this one is still to be trained
finished.add(trial)
finished.clear()                           # the search is done

KerasTuner draws the same values again from the same seed and the same results, so nothing of its own state is kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.configs.checkpoint import KEPT_IN
from headrace.configs.durable import write_text
from headrace.trainer.checkpointing.checkpoints import Checkpoints
from headrace.trainer.checkpointing.work import digest
from headrace.trainer.tuning.trials import Trial

if TYPE_CHECKING:
    from headrace.trainer.job import Job

FILE = "trials.json"


@dataclass
class Finished:
    """Those of one search, which `folder` is named after; None keeps nothing."""

    folder: Path | None = None
    _all: list[Trial] = field(default_factory=list)
    _left: list[Trial] = field(default_factory=list)

    @classmethod
    def of(cls, job: Job) -> Self:
        """What an interrupted search of the same settings, data and code has left."""
        place = job.custom_config.get(KEPT_IN)
        if place is None:
            return cls()
        search = hashlib.sha256(f"search {digest(job)}".encode()).hexdigest()
        folder = Path(place, search[:32])
        try:
            found = [Trial(**told) for told in json.loads((folder / FILE).read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return cls(folder)
        except (OSError, ValueError, TypeError) as error:
            print(f"tune: {folder / FILE} cannot be read ({error}): the search begins anew", flush=True)
            return cls(folder)
        print(f"tune: {len(found)} trials of the search that was interrupted are in {folder}", flush=True)
        return cls(folder, found, list(found))

    def take(self, values: Mapping[str, Any], epochs: int) -> Trial | None:
        """The trial of these values, once."""
        wanted = json.dumps([values, epochs], sort_keys=True)
        for trial in self._left:
            if json.dumps([trial.values, trial.epochs], sort_keys=True) == wanted:
                self._left.remove(trial)
                return trial
        return None

    def add(self, trial: Trial) -> None:
        """Keep it, unless it failed: what made it fail may be gone next time."""
        if self.folder is None or trial.score is None:
            return
        self._all.append(trial)
        write_text(self.folder / FILE, json.dumps([dataclasses.asdict(each) for each in self._all]))

    def clear(self) -> None:
        """Remove them."""
        if self.folder is not None:
            Checkpoints(self.folder).clear()
