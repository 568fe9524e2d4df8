"""How far a search for the kind of model has come: its rounds, and the time that each training gets.

race = Race(candidates, racing, waiting)
race.next_round(more_time=True)
race = Race.from_tree(race.to_tree())     # in another process
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

from headrace.trainer.checkpointing.checkpoints import StateTree
from headrace.trainer.model_search.choice import Candidate, Losses, best_of


@dataclass
class Race:
    """How far a search has come."""

    candidates: dict[int, Candidate]
    """By their numbers, from 1."""
    racing: list[int]
    """Those of the current round."""
    waiting: list[int]
    """Those that are still to be trained in it."""
    over: bool = False
    losses: dict[int, Losses] = field(default_factory=dict)
    """For each candidate, the losses of the examples of the eval split in its best epoch."""

    @property
    def seconds(self) -> float:
        """Time that all of them took."""
        return sum(one.seconds for one in self.candidates.values())

    @property
    def share(self) -> float:
        """The part of the time left that the next training gets."""
        later, size = 0, len(self.racing)
        while (size := size // 2) > 1:
            later += size
        return 1 / (len(self.waiting) + later)

    def next_round(self, *, more_time: bool) -> None:
        """Go on with the better half of those that race, unless none of them or no time is left for it."""
        ranked = [number for number in best_of(self.candidates) if number in self.racing]
        self.racing = ranked[: len(ranked) // 2]
        self.waiting = [number for number in self.racing if self.candidates[number].open]
        self.over = len(self.racing) < 2 or not self.waiting or not more_time

    def to_tree(self) -> StateTree:
        plain = dataclasses.asdict(dataclasses.replace(self, losses={}))
        return {"race": json.dumps(plain), "losses": {str(number): each for number, each in self.losses.items()}}

    @classmethod
    def from_tree(cls, tree: StateTree) -> Race:
        """Parse the output of `to_tree`."""
        plain = json.loads(tree["race"])
        plain["candidates"] = {int(number): Candidate(**one) for number, one in plain["candidates"].items()}
        losses = {int(number): each for number, each in tree["losses"].items()}
        return cls(**{**plain, "losses": losses})
