"""Which spans a run trains on and which it holds out, with `data.split_spans`.

RoleOfSpans.in_run({"eval": 1, "test": 1}, manifest).held_out      # {"2026-11-29": 20786, "2026-11-30": 20787}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.common.errors import DataError
from headrace.common.names import join_names
from headrace.components.spans.manifest import SpanManifest

SPLIT_SPANS = "split_spans"
"""The property of Examples with the spans of each split, as JSON: their numbers by their names."""
TRAINED_ON = "trained_on"
"""The property of a baseline with the numbers of the spans that it learned from, as JSON."""


@dataclass(frozen=True)
class RoleOfSpans:
    """The spans of each split: their numbers by their names. Empty if the rows of each span are split."""

    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def in_run(cls, split_spans: Mapping[str, int], manifest: SpanManifest) -> RoleOfSpans:
        """What `data.split_spans` makes of the spans of a run. Raises DataError if there is none to train on."""
        if not split_spans:
            return cls()
        held_out = [split for split, count in split_spans.items() for _ in range(count)]
        spans = manifest.spans
        if len(spans) <= len(held_out):
            found = f"{len(spans)} span{'s'[: len(spans) != 1]}"
            raise DataError(
                f"`data.split_spans` takes the newest {len(held_out)} for {join_names(split_spans)}, and there are"
                f" {found}, so none is left to train on",
                hint="Wait for more data, or widen `data.window`",
            )
        roles: dict[str, dict[str, int]] = {}
        for span, split in zip(spans, ["train"] * (len(spans) - len(held_out)) + held_out, strict=True):
            roles.setdefault(split, {})[span.name] = span.number
        return cls(roles)

    @classmethod
    def of_component(cls, split_spans: str, spans: Any) -> RoleOfSpans:
        """The same, given the setting as JSON and the artifact with the manifest; nothing for "" and None."""
        return cls.in_run(json.loads(split_spans or "{}"), SpanManifest.from_json(spans.value)) if spans else cls()

    @classmethod
    def of(cls, examples: Any) -> RoleOfSpans:
        """What an Examples artifact says of itself."""
        if not examples.has_custom_property(SPLIT_SPANS):
            return cls()
        return cls(json.loads(examples.get_string_custom_property(SPLIT_SPANS)))

    @property
    def split_of(self) -> dict[int, str]:
        return {number: split for split, own in self.splits.items() for number in own.values()}

    def split_with(self, name: str) -> str:
        """The split by which a span is judged: the one that holds it; `train` if the rows of each span are split."""
        return next((split for split, own in self.splits.items() if name in own), "train")

    @property
    def trained_on(self) -> tuple[int, ...]:
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
