"""`label:` what is predicted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.section import Name, Section


class LabelConfig(Section):
    """What is predicted.

    In the transformed examples it keeps its key: float32 [batch] for binary and regression, int64 [batch] (the class
    id) for multiclass.
    """

    key: Name
    """The data column."""
    kind: Literal["binary", "multiclass", "regression"]
    """binary: two classes, the model gives the probability of the second; multiclass: the model gives a probability for
    each class; regression: a number."""
    classes: (
        Annotated[int, Field(ge=2, le=1_000_000)] | Annotated[tuple[str | int, ...], Field(min_length=2)] | None
    ) = None
    """The values of the column, in the order of the class ids: a list, or a count n for integers 0..n-1. Needed for
    multiclass; for binary the default is `[0, 1]`."""

    @property
    def num_classes(self) -> int:
        """Width of the model's output: 1 for binary and regression, else the number of classes."""
        if self.kind != "multiclass" or self.classes is None:
            return 1
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def class_values(self) -> tuple[str | int, ...]:
        """The values of the column in the order of their class ids; empty for regression."""
        if self.kind == "regression":
            return ()
        if self.classes is None:
            return (0, 1)
        return tuple(range(self.classes)) if isinstance(self.classes, int) else self.classes

    @model_validator(mode="after")
    def _classes_fit_kind(self) -> LabelConfig:
        values = self.class_values
        if self.kind == "multiclass" and self.classes is None:
            raise ValueError(
                "a multiclass label needs `classes`: a list of its values, or a count n for integers 0 to n-1"
            )
        if self.kind == "binary" and len(values) != 2:
            raise ValueError(f"a binary label has two classes; got {len(values)}. For more, set `kind: multiclass`")
        if self.kind == "regression" and self.classes is not None:
            raise ValueError("a regression label has no `classes`; remove them or set `kind: multiclass`")
        if len({type(value) for value in values}) > 1 or len(set(values)) != len(values):
            raise ValueError(f"`classes` must be all strings or all integers, each once; got {list(values)}")
        return self
