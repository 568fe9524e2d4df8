"""Which of the workers of a cluster it is that reads."""

from __future__ import annotations

from dataclasses import dataclass

from configs.errors import TrainingError


@dataclass(frozen=True)
class Worker:
    """One of several processes that train a model together."""

    number: int = 0
    """The chief is 0."""
    of: int = 1
    """How many there are."""
    training: str = ""
    """A name that this training has in all of them, and no other has."""

    def part(self, batch_size: int) -> int:
        """Its examples of a batch. Raises TrainingError where it cannot be divided."""
        if batch_size % self.of:
            raise TrainingError(
                f"train.batch_size: {batch_size:,} is not divisible by the {self.of} workers of TF_CONFIG, which each"
                f" make their part of a batch; take {batch_size // self.of * self.of or self.of:,}"
            )
        return batch_size // self.of


ALONE = Worker()
