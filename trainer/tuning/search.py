"""The state of a search: its space for KerasTuner, and its finished trials for a search that is interrupted.

    finished = FinishedTrials.of(job)
    trial = finished.take(values, epochs)      # None: these values are still to be trained
    finished.add(trial)
    finished.clear()                           # the search is complete

KerasTuner draws the same values again from the same seed and the same results, so its own state need not be saved.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import keras_tuner

from headrace.common.durable import write_text
from headrace.configs.rules.tune import range_bounds, takes_integers
from headrace.configs.schema.train import CHECKPOINT_FOLDER
from headrace.configs.schema.tune import TunedParameter
from headrace.trainer.checkpointing.checkpoints import Checkpoints
from headrace.trainer.job import Job, job_digest
from headrace.trainer.sections import TrainerSections
from headrace.trainer.trials import INTERNAL, Trial

logger = logging.getLogger(__name__)

FILE = "trials.json"


def search_space(parameters: Mapping[str, TunedParameter], sections: TrainerSections) -> keras_tuner.HyperParameters:
    """Convert the parameters of `tune:`. KerasTuner only takes numbers and texts, so other choices become JSON."""
    space = keras_tuner.HyperParameters()
    within = {"model": sections.model, "train": sections.train}
    for name, parameter in parameters.items():
        if parameter.choices is not None:
            space.Choice(name, _plain(parameter.choices))
            continue
        whole = takes_integers(name, within)
        least, greatest = range_bounds(parameter, whole)
        step = parameter.step and (int(parameter.step) if whole else parameter.step)
        add = space.Int if whole else space.Float
        add(name, least, greatest, step=step, sampling=parameter.scale)
    return space


def _plain(choices: Sequence[Any]) -> list[Any]:
    """Keep numbers of one type, so that KerasTuner sees their order; convert anything else to JSON."""
    kinds = {type(choice) for choice in choices}
    return list(choices) if kinds in ({int}, {float}) else [json.dumps(choice) for choice in choices]


def config_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert KerasTuner's values by dotted name to those of the config."""
    return {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in values.items()
        if not name.startswith(INTERNAL)
    }


@dataclass
class FinishedTrials:
    """The finished trials of one search, after which `folder` is named; without a folder nothing is saved."""

    folder: Path | None = None
    _all: list[Trial] = field(default_factory=list)
    _left: list[Trial] = field(default_factory=list)

    @classmethod
    def of(cls, job: Job) -> Self:
        """Load what an interrupted search with the same settings, data and code has left."""
        parent = job.custom_config.get(CHECKPOINT_FOLDER)
        if parent is None:
            return cls()
        search = hashlib.sha256(f"search {job_digest(job)}".encode()).hexdigest()
        folder = Path(parent, search[:32])
        try:
            trials = [Trial(**trial) for trial in json.loads((folder / FILE).read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return cls(folder)
        except (OSError, ValueError, TypeError) as error:
            logger.warning(f"tune: {folder / FILE} cannot be read ({error}): the search starts from scratch")
            return cls(folder)
        logger.info(f"tune: {len(trials)} trials of an interrupted search are in {folder}")
        return cls(folder, trials, list(trials))

    def take(self, values: Mapping[str, Any], epochs: int) -> Trial | None:
        """Return the trial of these values, once; None if there is none."""
        wanted = json.dumps([values, epochs], sort_keys=True)
        for trial in self._left:
            if json.dumps([trial.values, trial.epochs], sort_keys=True) == wanted:
                self._left.remove(trial)
                return trial
        return None

    def add(self, trial: Trial) -> None:
        """Save a trial, unless it failed: the reason may be gone next time."""
        if self.folder is None or trial.score is None:
            return
        self._all.append(trial)
        write_text(self.folder / FILE, json.dumps([dataclasses.asdict(each) for each in self._all]))

    def clear(self) -> None:
        """Remove the saved trials."""
        if self.folder is not None:
            Checkpoints(self.folder).clear()
