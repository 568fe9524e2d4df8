"""Which of the workers of a cluster it is that reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.configs.errors import TrainingError


@dataclass(frozen=True)
class Worker:
    """One of several processes that train a model together."""

    number: int = 0
    """The chief is 0."""
    of: int = 1
    """How many there are."""
    training: str = ""
    """A name that this training has in all of them, and no other has."""
    has_share: bool = False
    """Whether the files of the train split that this process sees are its share of them."""

    def part(self, batch_size: int) -> int:
        """Its examples of a batch. Raises TrainingError where it cannot be divided."""
        if batch_size % self.of:
            raise TrainingError(
                f"train.batch_size: {batch_size:,} is not divisible by the {self.of} workers of TF_CONFIG, which each"
                f" make their part of a batch; take {batch_size // self.of * self.of or self.of:,}"
            )
        return batch_size // self.of

    def share(self, files: Sequence[str]) -> Sequence[str]:
        """Its files of the train split, where the workers share them. Raises TrainingError if there are too few."""
        if self.has_share:
            return files
        if len(files) < self.of:
            raise TrainingError(
                f"{self.of} workers are to share the {len(files)} files of the train split. Set `data.shards` to"
                f" {self.of} or more, or remove train.steps_per_epoch and train.input.own_shards"
            )
        return files[self.number :: self.of]


ALONE = Worker()
