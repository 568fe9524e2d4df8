"""`label:` what is predicted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.section import Name, Section

MOST_LABELS = 1000
"""The most classes of a multilabel label, each of which has metrics of its own."""


class LabelConfig(Section):
    """What is predicted.

    The transformed examples contain it under its key: float32 [batch] for binary and regression, int64 [batch] (the
    class id) for multiclass and next_word, float32 [batch, classes] of 0 and 1 for multilabel.
    """

    key: Name
    """The data column."""
    kind: Literal["binary", "multiclass", "multilabel", "regression", "next_word"]
    """binary: two classes, the model predicts the probability of the second; multiclass: one of several classes, the
    model predicts a probability for each; multilabel: any number of classes at once, such as the tags of an article,
    the model predicts the probability of each on its own; regression: a number; next_word: the word after a text, the
    model predicts a probability for each word of that text's vocabulary, and a last one for all other words (only
    `model.kind: text`)."""
    classes: (
        Annotated[int, Field(ge=2, le=1_000_000)] | Annotated[tuple[str | int, ...], Field(min_length=2)] | None
    ) = None
    """The values of the column in the order of the class ids: a list, or a count n for integers 0..n-1. Required for
    multiclass and multilabel (at most 1,000 there); for binary the default is `[0, 1]`."""
    separator: Name | None = None
    """Only for multilabel: the text between the classes of a row, such as `|` in `comedy|drama`. White space around a
    class does not count. null: each value of the column is a class; it may hold lists."""
    missing: Literal["refuse", "drop", "none"] = "refuse"
    """What to do with a row whose label is missing: absent, NaN, an empty text, an empty list or the smallest int64.
    refuse: it is a problem in the data, so that `data.on_anomaly` decides. drop: leave the row out of all splits, and
    report how many there were. none: only for multilabel, the row belongs to none of the classes."""
    weight: Name | None = None
    """A data column with the weight of each row, a number from 0 up: 2 counts like two such rows, 0 like none. It
    applies to the loss of training, the eval loss and so early stopping, all metrics and thresholds, and the best
    constant prediction. Every row needs one. null: all rows count the same."""
    text: Name | None = None
    """Required for next_word: the feature (`column: text`) whose words the label follows. The label's text is processed
    like that feature, and its first word is predicted."""

    @property
    def identity(self) -> str:
        """What two models must share to predict the same, as JSON: all settings but those that choose or weigh rows."""
        return self.model_dump_json(exclude={"missing", "weight"})

    @property
    def num_classes(self) -> int:
        """Width of the model's output: 1 for binary and regression, else the number of classes.

        For next_word it is known only with the vocabulary (see `with_classes`).
        """
        if self.kind in ("binary", "regression") or self.classes is None:
            return 1
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def class_values(self) -> tuple[str | int, ...]:
        """The values of the column in the order of their class ids; empty for regression and next_word."""
        if self.kind in ("regression", "next_word"):
            return ()
        if self.classes is None:
            return (0, 1)
        return tuple(range(self.classes)) if isinstance(self.classes, int) else self.classes

    def with_classes(self, number: int) -> LabelConfig:
        """A copy with this number of classes."""
        return self.model_copy(update={"classes": number})

    @model_validator(mode="after")
    def _weight_fits(self) -> LabelConfig:
        if self.weight == self.key:
            raise ValueError(f"`weight` is the label itself, {self.key!r}; name the column that holds the weights")
        if self.weight is not None and self.kind == "next_word":
            raise ValueError(
                "`weight` is not used by a next_word label, which learns from every word of a text; remove it"
            )
        return self

    @model_validator(mode="after")
    def _lists_fit_kind(self) -> LabelConfig:
        if self.kind == "multilabel":
            within = [value for value in self.class_values if self.separator and self.separator in str(value)]
            if within:
                raise ValueError(
                    f"the class {within[0]!r} contains the `separator`, {self.separator!r}; use another one"
                )
            return self
        if self.separator is not None:
            raise ValueError(f"`separator` is not used by a {self.kind} label; remove it or set `kind: multilabel`")
        if self.missing == "none":
            raise ValueError(
                f"`missing: none` is for multilabel; a {self.kind} label needs a value: use refuse or drop"
            )
        return self

    @model_validator(mode="after")
    def _text_fits_kind(self) -> LabelConfig:
        if self.kind == "next_word" and self.text is None:
            raise ValueError("a next_word label requires `text`: the name of the text feature that it follows")
        if self.kind != "next_word" and self.text is not None:
            raise ValueError(f"`text` is not used by a {self.kind} label; remove it or set `kind: next_word`")
        return self

    @model_validator(mode="after")
    def _classes_fit_kind(self) -> LabelConfig:
        values = self.class_values
        if self.kind in ("multiclass", "multilabel") and self.classes is None:
            raise ValueError(
                f"a {self.kind} label requires `classes`: a list of its values, or a count n for integers 0 to n-1"
            )
        if self.kind == "binary" and len(values) != 2:
            raise ValueError(f"a binary label has two classes; found {len(values)}. For more, set `kind: multiclass`")
        if self.kind == "multilabel" and len(values) > MOST_LABELS:
            raise ValueError(f"a multilabel label has at most {MOST_LABELS:,} classes; found {len(values):,}")
        if self.kind in ("regression", "next_word") and self.classes is not None:
            raise ValueError(f"`classes` is not used by a {self.kind} label; remove it or set `kind: multiclass`")
        if len({type(value) for value in values}) > 1 or len(set(values)) != len(values):
            raise ValueError(f"`classes` must be all strings or all integers, without duplicates; found {list(values)}")
        return self
