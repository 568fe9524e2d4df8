"""The base class of every kind of feature column, and what columns over one data column and over categories share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headrace.configs.schema.kinds import Kind
from headrace.configs.schema.section import KeyPath, Name, PositiveInt

Embedding = Literal["auto", "one_hot"] | PositiveInt


class FeatureBase(Kind):
    """What a column means. `implementation` names a subclass of `headrace.trainer.columns.base.Column`."""

    if TYPE_CHECKING:
        column: str

    takes_one_number: ClassVar[bool] = False
    """Whether it reads its data column as one number, so that text, lists and infinite values are refused early."""
    fitting_types: ClassVar[tuple[str, ...]] = ()
    """The types of the data column that it accepts, as `data.types` names them, without ` list`. Empty: any."""
    ordered: ClassVar[bool] = True
    """Whether the order of its data column's numbers means something to it, so that the report may draw a curve over
    them."""
    remedy: ClassVar[str] = "use another kind of feature"
    """What to do about a column of another type."""

    def column_settings(self, name: str) -> dict[KeyPath, str]:
        """The data columns that it reads, each by the setting that names it; an empty path stands for its own name."""
        key: str | None = getattr(self, "key", None)
        return {(): name} if key is None else {("key",): key}

    def data_column(self, name: str) -> str:
        """The data column that it reads, the first if there are several; its own name if no setting names one."""
        return next(iter(self.column_settings(name).values()), name)

    def data_columns(self, name: str, features: Mapping[str, FeatureBase]) -> tuple[str, ...]:
        """The data columns that it reads, directly or through other features."""
        return tuple(self.column_settings(name).values())

    @property
    def list_size(self) -> int | None:
        """Numbers in each list of its data column, if it takes lists of a fixed length."""
        return None

    @property
    def is_number(self) -> bool:
        """Whether it is a number, which cannot be crossed; otherwise it is a category."""
        return True

    def description(self) -> str:
        """What it computes, for the report."""
        settings = self.model_dump(exclude={"column", "key", "embedding", "deep", "wide"}, exclude_defaults=True)
        return ", ".join(f"{name}: {value}" for name, value in settings.items()) or self.column

    def model_parts(self, model: Any) -> str:
        """The parts of the model that use it, for the report. model: the config's `model:`."""
        return "number"


class SingleColumn(FeatureBase):
    """A feature over one data column."""

    key: Name | None = None
    """The data column. null: the column with the feature's own name."""


class Categorical(FeatureBase):
    """A feature with categories, which the model embeds."""

    embedding: Embedding | None = None
    """Width of its embedding in the deep part: an integer, `auto` (number of categories to the power 0.25, rounded up),
    or `one_hot`. null: `model.embedding`."""
    deep: bool = True
    """Whether the deep part uses it."""
    wide: bool = True
    """Whether the wide (linear) part of `wide_and_deep` has a weight for each of its categories."""

    @property
    def is_number(self) -> bool:
        return False

    def model_parts(self, model: Any) -> str:
        if model.has_trees:
            return "category"
        embedding = self.embedding or model.embedding
        deep = {"auto": "embedding", "one_hot": "one-hot"}.get(str(embedding), f"embedding of {embedding}")
        parts = (deep, self.deep and model.has_deep_part), ("wide", self.wide and model.has_wide_part)
        return " + ".join(part for part, there in parts if there) or "not used"


def describe_missing(value: object) -> str:
    """`; missing: 3`, or nothing."""
    return "" if value is None else f"; missing: {value}"


def describe_vocabulary(values: tuple[Any, ...] | None, file: str | None, top_k: int | None, min_frequency: int) -> str:
    if values is not None:
        return f"{len(values)} given values"
    if file is not None:
        return f"the values in {file}"
    most = f"the {top_k} most frequent values" if top_k else "the values"
    often = f", seen at least {min_frequency} times" if min_frequency > 1 else ""
    return f"{most} of the train split{often}"
