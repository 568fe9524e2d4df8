"""What a search for the kind of model has found, as a file of the run and as state that a killed search continues from.

choice = ModelChoice.read(job.run_dir)
choice.model["kind"], choice.search.table()
job = with_chosen_model(job)        # the job that a config with the chosen kind has

The lowest eval loss is partly luck, the more so the fewer examples the eval split has. So a candidate that is listed
earlier in `model.candidates` is chosen, unless the lowest loss is below its own by more than the noise of their
difference (`choose`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headrace.common.durable import write_text
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.models import ModelBase
from headrace.trainer.job import Job
from headrace.trainer.sections import TrainerSections
from headrace.trainer.trials import MODEL_SEARCH_FILE, Search, Trial

ALGORITHM = "kinds of models"
"""Name of the search in the report, where others have random, bayesian or hyperband."""
NOISE = 1.0
"""Standard errors of the paired difference of two losses that count as noise."""
Losses = NDArray[np.float32]
"""[examples]: the losses of the examples of the eval split."""


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
    """Why it cannot be trained, or is left out."""
    left_out: bool = False
    """Whether it is not tried at all."""

    @property
    def open(self) -> bool:
        """Whether more time may lower its loss."""
        return not self.ended and not self.failure


def best_of(candidates: Mapping[int, Candidate]) -> list[int]:
    """The numbers of those that did not fail, the lowest eval loss first; of equal ones, the first."""
    losses = {number: one.loss for number, one in candidates.items() if one.loss is not None}
    return sorted(losses, key=lambda number: (losses[number], number))


class LossDifference(NamedTuple):
    """How much higher the loss of one candidate is than that of another, on the same examples."""

    mean: float
    error: float
    """Standard error of the mean."""

    @classmethod
    def of(cls, losses: Losses, lowest: Losses) -> Self:
        """Compare the losses of examples, in the same order. Of fewer than two examples, the error is infinite."""
        paired = losses.astype(np.float64) - lowest.astype(np.float64)
        count = len(paired)
        return cls(float(paired.mean()), float(paired.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf)

    @property
    def is_noise(self) -> bool:
        """Whether it is no more than NOISE standard errors."""
        return self.mean <= NOISE * self.error


def choose(candidates: Mapping[int, Candidate], losses: Mapping[int, Losses], preferred: Sequence[str]) -> Chosen:
    """Choose the first of `preferred` whose loss exceeds the lowest one by no more than noise.

    This is the rule of one standard error (Breiman, Friedman, Olshen and Stone 1984, Classification and Regression
    Trees, section 3.4.3), with the error of the paired difference, from which what makes an example hard for every
    candidate cancels out.

    losses: those of the examples of the eval split, of each candidate that did not fail.
    """
    ranked = best_of(candidates)
    lowest = ranked[0]
    differences = {number: LossDifference.of(losses[number], losses[lowest]) for number in ranked}
    in_order = sorted(ranked, key=lambda number: preferred.index(candidates[number].name))
    number = next(number for number in in_order if number == lowest or differences[number].is_noise)
    return Chosen(number, lowest, differences[number])


class Chosen(NamedTuple):
    """The candidate that was chosen, which need not have the lowest eval loss."""

    number: int
    lowest: int
    """The candidate with the lowest eval loss."""
    difference: LossDifference
    """Between these two."""

    def reason(self, candidates: Mapping[int, Candidate]) -> str:
        """For the training record and the report."""
        if self.number == self.lowest:
            return f"the lowest eval loss ({candidates[self.number].loss:.5g})"
        lowest = candidates[self.lowest]
        return (
            f"an eval loss of {candidates[self.number].loss:.5g}; that of {lowest.name}, {lowest.loss:.5g}, is lower by"
            f" {self.difference.mean:.3g}, which is within the noise ({self.difference.error:.3g})"
        )


@dataclass(frozen=True)
class ModelChoice:
    """The model that a search chose, and all of its candidates."""

    model: dict[str, Any]
    """The `model:` section of a config that trains this model without a search."""
    search: Search

    @classmethod
    def of(cls, auto: AutoModel, candidates: Mapping[int, Candidate], losses: Mapping[int, Losses]) -> Self:
        """Choose a candidate. losses: as in `choose`."""
        trials = tuple(_trial(number, one, auto) for number, one in candidates.items())
        chosen = choose(candidates, losses, auto.candidates)
        model = auto.model(candidates[chosen.number].name)
        plain = {"kind": model.kind, **model.model_dump(mode="json", exclude_defaults=True)}
        return cls(plain, Search(ALGORITHM, "loss", False, trials, chosen.number, chosen.reason(candidates)))

    @property
    def words(self) -> str:
        """For the training record."""
        seconds = sum(trial.seconds for trial in self.search.trials)
        name = ", ".join(f"{name}: {value}" if name != "kind" else str(value) for name, value in self.model.items())
        tried = self.search.tried
        return f"{name}, of {tried} candidate{'s' * (tried != 1)}, in {seconds:.0f} s: {self.search.reason}"

    def write(self, run_dir: Path) -> None:
        content = {"model": self.model, "search": self.search.to_plain()}
        write_text(run_dir / MODEL_SEARCH_FILE, json.dumps(content, indent=1))

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        content = json.loads((run_dir / MODEL_SEARCH_FILE).read_text(encoding="utf-8"))
        return cls(content["model"], Search.from_plain(content["search"]))


def _trial(number: int, one: Candidate, auto: AutoModel) -> Trial:
    values = {f"model.{name}": value for name, value in auto.settings(one.name).items()}
    return Trial(number, values, one.epochs, one.seconds, one.loss, one.failure, one.left_out)


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
