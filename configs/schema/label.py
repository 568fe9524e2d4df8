"""`label:` what is predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_serializer, model_validator
from pydantic_core import InitErrorDetails

from headrace.configs.schema.features.unstructured import TextFeature, check_words
from headrace.configs.schema.section import KeyPath, Name, PositiveInt, Section
from headrace.configs.schema.task import TaskConfig

MOST_LABELS = 1000
"""The most classes of a multilabel label, each of which has metrics of its own."""


class LabelWords(Section):
    """How the texts of a `text` label are cut into words, and which words the model can write."""

    lowercase: bool = True
    """Convert words to lower case first (by Unicode's rules), so that the model writes lower case."""
    split: Literal["whitespace", "words", "marks"] = "whitespace"
    """What a word is, as in a `text` feature. The model writes words with spaces between them, so texts that differ
    only in their white space are the same; with `words`, it never writes a mark."""
    max_tokens: PositiveInt = 50
    """Maximum number of words of a text that are learned and evaluated, the first ones, and the most that the model
    writes unless `generate` is asked for more. All texts are stored with this length."""
    values: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The vocabulary itself, in order: words as the texts have them after `lowercase` and `split`. null: it is learned
    from the labels of the train split."""
    top_k: PositiveInt | None = None
    """Learned only: keep the k most frequent words. null: all. Training holds a score for each word of the vocabulary
    at each place of a text: per row of a batch, `max_tokens` x vocabulary x 4 bytes, several times over. With 50 places
    and 10,000 words that is 2 MB."""
    min_frequency: PositiveInt = 1
    """Learned only: drop words with fewer occurrences in the train split. Each dropped word becomes the unknown word,
    which the model learns where it occurs and never writes. With 1, and without `top_k`, no word of the train split is
    unknown, so the model never learns to expect one: it gives an unknown word of other texts, which counts in the
    cross-entropy, an arbitrary low probability. 2 avoids that."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> LabelWords:
        if self.values is not None and (self.top_k is not None or self.min_frequency != 1):
            raise ValueError(
                "`top_k` and `min_frequency` are for a learned vocabulary; remove them, or remove `values`"
            )
        check_words(self.values, lowercase=self.lowercase, split=self.split)
        return self

    def feature(self, key: str) -> TextFeature:
        """The text feature that cuts the data column `key` in the same way."""
        return TextFeature(column="text", key=key, oov_buckets=1, **self.model_dump())


class LabelConfig(Section):
    """What is predicted.

    The transformed examples contain it under its key: float32 [batch] for binary and regression, int64 [batch] (the
    class id) for multiclass and next_word, float32 [batch, classes] of 0 and 1 for multilabel, int64 [batch, words]
    (class ids, padded with -1) for text. Those of multitask are there under the key of each task.
    """

    in_task: ClassVar[bool] = False
    """Whether it is one of several labels."""
    optional: ClassVar[bool] = False
    """Whether a row may lack it, and counts for the other labels only."""

    key: Name = ""
    """The data column. Required, except for multitask, whose tasks name theirs."""
    kind: Literal["binary", "multiclass", "multilabel", "regression", "next_word", "text", "multitask"]
    """binary: two classes, the model predicts the probability of the second; multiclass: one of several classes, the
    model predicts a probability for each; multilabel: any number of classes at once, such as the tags of an article,
    the model predicts the probability of each on its own; regression: a number; next_word: the word after a text, the
    model predicts a probability for each word of that text's vocabulary, and a last one for all other words (only
    `model.kind: text`); text: a whole text, such as an answer or a translation, which the model writes word by word
    (only `model.kind: encoder_decoder`); multitask: several labels in columns of their own, which one model predicts
    together (see docs/multitask.md)."""
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

    words: LabelWords | None = None
    """Only for text: what its words are. null: the defaults."""
    tasks: dict[str, TaskConfig] | None = None
    """Required for multitask: two or more labels by name. A name consists of letters, digits and `_`; it is the data
    column too, unless the task names another one in `key`."""

    @property
    def identity(self) -> str:
        """What two models must share to predict the same, as JSON: all settings but those that choose or weigh rows."""
        hidden: Any = {"missing": True, "weight": True, "tasks": {"__all__": {"missing", "loss_weight"}}}
        if self.words is None:
            hidden["words"] = True  # as in models from before there was this setting
        return self.model_dump_json(exclude=hidden)

    @property
    def unweighted(self) -> LabelConfig:
        """The same, without how much each task counts in the loss."""
        if self.tasks is None:
            return self
        tasks = {name: task.model_copy(update={"loss_weight": 1.0}) for name, task in self.tasks.items()}
        return self.model_copy(update={"tasks": tasks})

    @property
    def parts(self) -> Mapping[str, LabelConfig]:
        """What the model predicts: each task's label by the task's name; any other label itself, by the name ""."""
        if self.tasks is None:
            return {"": self}
        return {name: _label_of(name, task, self.weight) for name, task in self.tasks.items()}

    @staticmethod
    def setting(part: str) -> KeyPath:
        """Where the settings of a part are."""
        return ("label", "tasks", part) if part else ("label",)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each part."""
        return {name: part.kind for name, part in self.parts.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.key for part in self.parts.values())

    @property
    def text_feature(self) -> TextFeature:
        """Of a text label: the settings of its words."""
        return (self.words or LabelWords()).feature(self.key)

    @property
    def num_classes(self) -> int:
        """Width of the model's output: 1 for binary and regression, the sum over its tasks for multitask, else the
        number of classes.

        For next_word and text it is known only with the vocabulary (see `with_classes`).
        """
        if self.tasks is not None:
            return sum(part.num_classes for part in self.parts.values())
        if self.kind in ("binary", "regression") or self.classes is None:
            return 1
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def class_values(self) -> tuple[str | int, ...]:
        """The values of the column in the order of their class ids; empty for all kinds without classes."""
        if self.kind in ("regression", "next_word", "text", "multitask"):
            return ()
        if self.classes is None:
            return (0, 1)
        return tuple(range(self.classes)) if isinstance(self.classes, int) else self.classes

    def with_classes(self, number: int) -> LabelConfig:
        """A copy with this number of classes."""
        return self.model_copy(update={"classes": number})

    @model_serializer(mode="wrap")
    def _key_or_tasks(self, serialize: Callable[[LabelConfig], dict[str, Any]]) -> dict[str, Any]:
        """Without `tasks` if there are none, as in what was written before there were any; else without `key`."""
        found = serialize(self)
        found.pop("tasks" if self.tasks is None else "key", None)
        return found

    @model_validator(mode="after")
    def _tasks_fit_kind(self) -> LabelConfig:
        if self.kind != "multitask":
            if not self.key:
                missing = InitErrorDetails(type="missing", loc=("key",), input={})
                raise ValidationError.from_exception_data("LabelConfig", [missing])
            if self.tasks is not None:
                raise ValueError(f"`tasks` is not used by a {self.kind} label; remove it or set `kind: multitask`")
            return self
        tasks = list(self.tasks or ())
        if len(tasks) < 2:
            found = "none" if not tasks else f"only {tasks[0]}, so set its kind in `label.kind`, with its `key`"
            raise ValueError(f"a multitask label requires two or more `tasks`; found {found}")
        if self.key:
            raise ValueError("`key` is not used by a multitask label; remove it, or set it in one of its tasks")
        for name in ("classes", "separator", "text", "words"):
            if getattr(self, name) is not None:
                raise ValueError(f"`{name}` is not used by a multitask label; move it to one of its `tasks`")
        if self.missing != "refuse":
            raise ValueError("`missing` is not used by a multitask label; set `missing: mask` in a task")
        return self

    @model_validator(mode="after")
    def _weight_fits(self) -> LabelConfig:
        if self.weight in self.columns:
            raise ValueError(f"`weight` is the label itself, {self.weight!r}; name the column that holds the weights")
        if self.weight is not None and self.kind in ("next_word", "text"):
            raise ValueError(
                f"`weight` is not used by a {self.kind} label, which learns from every word of a text; remove it"
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
            way = "name the source in `model.text`" if self.kind == "text" else "remove it or set `kind: next_word`"
            raise ValueError(f"`text` is not used by a {self.kind} label; {way}")
        if self.kind != "text" and self.words is not None:
            raise ValueError(f"`words` is not used by a {self.kind} label; remove it or set `kind: text`")
        return self

    @model_validator(mode="after")
    def _classes_fit_kind(self) -> LabelConfig:
        values = self.class_values
        if self.kind in ("multiclass", "multilabel") and self.classes is None:
            raise ValueError(
                f"a {self.kind} label requires `classes`: a list of its values, or a count n for integers 0 to n-1;"
                " or set `kind: auto`, which takes them from the data"
            )
        if self.kind == "binary" and len(values) != 2:
            raise ValueError(f"a binary label has two classes; found {len(values)}. For more, set `kind: multiclass`")
        if self.kind == "multilabel" and len(values) > MOST_LABELS:
            raise ValueError(f"a multilabel label has at most {MOST_LABELS:,} classes; found {len(values):,}")
        if self.kind in ("regression", "next_word", "text") and self.classes is not None:
            raise ValueError(f"`classes` is not used by a {self.kind} label; remove it or set `kind: multiclass`")
        if len({type(value) for value in values}) > 1 or len(set(values)) != len(values):
            raise ValueError(f"`classes` must be all strings or all integers, without duplicates; found {list(values)}")
        return self


class TaskLabel(LabelConfig):
    """The label of a task."""

    in_task: ClassVar[bool] = True


class OptionalLabel(TaskLabel):
    """The label of a task with `missing: mask`."""

    optional: ClassVar[bool] = True


def _label_of(name: str, task: TaskConfig, weight: str | None) -> LabelConfig:
    """The label of a task as if it were the only one. The rules check it (configs/rules/multitask.py)."""
    kind = OptionalLabel if task.missing == "mask" else TaskLabel
    return kind.model_construct(
        key=task.key or name,
        kind=task.kind,
        classes=task.classes,
        separator=task.separator,
        missing="none" if task.missing == "none" else "refuse",
        weight=weight,
    )
