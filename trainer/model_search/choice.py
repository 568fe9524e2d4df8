"""What a search for the kind of model has found, as a file of the run and as state that a killed search continues from.

choice = ModelChoice.read(job.run_dir)
choice.model["kind"], choice.search.table()
job = with_chosen_model(job)        # the job that a config with the chosen kind has
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from headrace.common.durable import write_text
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.models import ModelBase
from headrace.trainer.job import Job
from headrace.trainer.sections import TrainerSections
from headrace.trainer.trials import MODEL_SEARCH_FILE, Search, Trial

ALGORITHM = "kinds of models"
"""Name of the search in the report, where others have random, bayesian or hyperband."""


@dataclass(frozen=True)
class Candidate:
    """How far the training of a candidate has come."""

    name: str
    """As in `model.candidates`."""
    loss: float | None = None
    """The lowest eval loss so far; None before the first training and after a failure."""
    epochs: int = 0
    """Epochs that are complete."""
    seconds: float = 0.0
    """Time that it took in the search."""
    ended: bool = False
    """Whether it is trained to its end, by early stopping or its last epoch."""
    failure: str = ""
    """Why it cannot be trained."""

    @property
    def open(self) -> bool:
        """Whether more time may lower its loss."""
        return not self.ended and not self.failure


def best_of(candidates: Mapping[int, Candidate]) -> list[int]:
    """The numbers of those that did not fail, the lowest eval loss first; of equal ones, the first."""
    losses = {number: one.loss for number, one in candidates.items() if one.loss is not None}
    return sorted(losses, key=lambda number: (losses[number], number))


@dataclass(frozen=True)
class ModelChoice:
    """The model that a search chose, and all of its candidates."""

    model: dict[str, Any]
    """The `model:` section of a config that trains this model without a search."""
    search: Search

    @classmethod
    def of(cls, auto: AutoModel, candidates: Mapping[int, Candidate]) -> Self:
        """Choose the candidate with the lowest eval loss."""
        trials = tuple(_trial(number, one, auto) for number, one in candidates.items())
        chosen = auto.model(candidates[best_of(candidates)[0]].name)
        plain = {"kind": chosen.kind, **chosen.model_dump(mode="json", exclude_defaults=True)}
        return cls(plain, Search(ALGORITHM, "loss", False, trials))

    @property
    def words(self) -> str:
        """For the training record."""
        best, seconds = self.search.best, sum(trial.seconds for trial in self.search.trials)
        name = ", ".join(f"{name}: {value}" if name != "kind" else str(value) for name, value in self.model.items())
        loss = best.score if best else None
        return f"{name}: the lowest eval loss ({loss:.5g}) of {len(self.search.trials)} candidates, in {seconds:.0f} s"

    def write(self, run_dir: Path) -> None:
        """Write the file."""
        content = {"model": self.model, "search": self.search.to_plain()}
        write_text(run_dir / MODEL_SEARCH_FILE, json.dumps(content, indent=1))

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Read the file of a run."""
        content = json.loads((run_dir / MODEL_SEARCH_FILE).read_text(encoding="utf-8"))
        return cls(content["model"], Search.from_plain(content["search"]))


def _trial(number: int, one: Candidate, auto: AutoModel) -> Trial:
    values = {f"model.{name}": value for name, value in auto.settings(one.name).items()}
    return Trial(number, values, one.epochs, one.seconds, one.loss, one.failure)


def with_model(job: Job, model: ModelBase, **changes: Any) -> Job:
    """The job with another model, and other changes."""
    sections = TrainerSections.from_json(job.custom_config["config"]).model_copy(update={"model": model})
    config = {**job.custom_config, "config": sections.to_json()}
    return dataclasses.replace(job, custom_config=config, **changes)


def with_chosen_model(job: Job) -> Job:
    """The job with the model that its search chose; the same job without a search."""
    auto = job.sections.model
    if not isinstance(auto, AutoModel):
        return job
    plain = json.loads(job.sections.to_json())
    chosen = TrainerSections.from_json(json.dumps({**plain, "model": ModelChoice.read(job.run_dir).model}))
    return with_model(job, chosen.model)
