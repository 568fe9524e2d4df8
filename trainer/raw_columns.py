"""The columns of the data that a model reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.configs.loading.tree import dotted
from headrace.configs.schema.features import single_columns
from headrace.trainer.sections import TrainerSections


@dataclass(frozen=True)
class RawColumns:
    """The data columns that a model reads."""

    labels: Collection[str]
    """The labels' data columns."""
    features: Collection[str]
    """The data columns that features read, in the config's order."""
    weight: str | None = None
    """The data column with the weights of the examples, which only training and evaluation read."""
    multivalued: Collection[str] = ()
    """Those of which a feature uses all values of an example."""
    vectors: Mapping[str, int] = field(default_factory=dict)
    """Those that hold lists of a fixed length, each with that length."""
    float64: Collection[str] = ()
    """Those that hold float64 values, whose bits the examples have in a column of their own."""
    single: Mapping[str, str] = field(default_factory=dict)
    """Those of which an example may have at most one value, each with the setting that reads it."""

    @classmethod
    def of(cls, sections: TrainerSections) -> RawColumns:
        """Return the data columns that label and features read."""
        reads = {name: one.data_columns(name, sections.features) for name, one in sections.features.items()}
        multivalued = [name for name, one in sections.features.items() if getattr(one, "multivalued", False)]
        single = {}
        if sections.several_values == "refuse":
            features = {column: f"features.{name}" for column, name in single_columns(sections.features).items()}
            parts = {part.key: dotted(part.setting(name)) for name, part in sections.label.parts.items()}
            several = {part.key for part in sections.label.parts.values() if part.kind == "multilabel"}
            single = {**{key: setting for key, setting in parts.items() if key not in several}, **features}
        return cls(
            labels=sections.label.columns,
            weight=sections.label.weight,
            features=list(dict.fromkeys(column for names in reads.values() for column in names)),
            multivalued={column for name in multivalued for column in reads[name]},
            vectors={
                column: one.list_size
                for name, one in sections.features.items()
                for column in reads[name]
                if one.list_size is not None
            },
            float64=sections.float64,
            single=single,
        )
