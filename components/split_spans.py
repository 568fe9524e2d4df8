"""Which spans a run trains on and which it holds out, with `data.split_spans`: what ExampleGen says of its examples.

RoleOfSpans.of(examples).held_out          # {"2026-11-29": 20786, "2026-11-30": 20787}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

SPLIT_SPANS = "split_spans"
"""The property of Examples with the spans of each split, as JSON: their numbers by their names."""
TRAINED_ON = "trained_on"
"""The property of a baseline with the numbers of the spans that it learned from, as JSON."""


@dataclass(frozen=True)
class RoleOfSpans:
    """The spans of each split: their numbers by their names. Empty if the rows of each span are split."""

    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, examples: Any) -> RoleOfSpans:
        """What an Examples artifact says; nothing for None."""
        if examples is None or not examples.has_custom_property(SPLIT_SPANS):
            return cls()
        return cls(json.loads(examples.get_string_custom_property(SPLIT_SPANS)))

    @property
    def trained_on(self) -> tuple[int, ...]:
        """The numbers of the spans in training."""
        return tuple(self.splits.get("train", {}).values())

    @property
    def held_out(self) -> dict[str, int]:
        """The spans in any other split."""
        return {name: number for split, own in self.splits.items() if split != "train" for name, number in own.items()}

    def why_not_base(self, learned: Collection[int]) -> str | None:
        """Why training must not start from a model that learned from these spans; None if it may.

        It, or one that it started from, may have learned from any span up to its newest.
        """
        known = [name for name, number in self.held_out.items() if learned and number <= max(learned)]
        if not known:
            return None
        return f"it may have learned from {', '.join(known)}, which this run holds out"

    def remarks(self, split: str, learned: Collection[int]) -> tuple[str, ...]:
        """A remark if the baseline learned from spans on which it is now measured."""
        known = [name for name, number in self.splits.get(split, {}).items() if number in learned]
        if not known:
            return ()
        what = f"the baseline learned from {', '.join(known)}, which is in the {split} split now"
        return (f"{what}: its metrics are too good to compare a new model with",)
