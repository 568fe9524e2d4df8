"""The components by name: what `pipeline/build.py` builds, and what the function of `pipeline.extend` gets.

def extend(components):
    examples = components.example_gen.outputs["examples"]
    return [ExampleCount(examples=examples)]                                   # a further component
    return dataclasses.replace(components, example_validator=Validator(...))   # another one in place of ours
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from tfx.dsl.components.base.base_node import BaseNode


@dataclass(frozen=True, kw_only=True)
class DataComponents:
    """The components from raw data to examples that passed the gate."""

    spans: BaseNode
    example_gen: BaseNode
    statistics_gen: BaseNode
    schema_gen: BaseNode
    example_validator: BaseNode
    data_gate: BaseNode


@dataclass(frozen=True, kw_only=True)
class Components(DataComponents):
    """All components. One that the config does not ask for is None."""

    drift: BaseNode | None
    transform: BaseNode
    tuner: BaseNode | None
    warm_start: BaseNode | None
    trainer: BaseNode
    profile_verdict: BaseNode | None
    profile_gate: BaseNode | None
    baseline: BaseNode
    evaluator: BaseNode
    record_blessing: BaseNode
    pusher: BaseNode | None
    record_training: BaseNode | None
    extra: tuple[BaseNode, ...] = ()
    """The further components."""

    def named(self) -> dict[str, BaseNode | None]:
        """All except `extra`, by their names here."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "extra"}

    def __iter__(self) -> Iterator[BaseNode]:
        """Those that exist."""
        yield from (node for node in self.named().values() if node is not None)
        yield from self.extra
