"""The rules of `model.kind: trees`: what it can learn from, and the settings that mean nothing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from headrace.common.names import join_names
from headrace.configs.rules.rule import Violation, apply_rules
from headrace.configs.schema.features import Feature, TextEmbeddingFeature, TextFeature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelBase, ModelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import CheckpointConfig, TrainConfig
from headrace.configs.schema.trees_model import TreesModel
from headrace.configs.schema.tune import TuneConfig

LABELS = ("binary", "multiclass", "regression")
APPLIES = frozenset({"seed", "early_stopping", "class_weight", "checkpoint", "strategy", "input"})
"""The settings of `train:` that trees use, or that are judged by rules of their own."""
READING = frozenset({"threads", "read_batch", "open_files"})
"""The settings of `train.input` that say how files are read."""
STRATEGIES = ("auto", "cpu")
CHECKPOINT = ("train", "checkpoint")
INSTEAD: Mapping[str, str] = {
    "epochs": "set `model.iterations` instead",
    "learning_rate": "set `model.learning_rate` instead",
}
"""What to set in place of a setting that does not apply."""


def trees_have_a_label(model: ModelConfig, label: LabelConfig) -> Iterator[Violation]:
    if isinstance(model, TreesModel) and label.kind not in (*LABELS, "next_word", "text"):  # which other rules have
        what = f"`kind: trees` predicts {join_names(LABELS)} labels, and this one is {label.kind}"
        yield ("model", "kind"), f"{what}; use `kind: wide_and_deep`"


def trees_have_single_values(model: ModelConfig, features: dict[str, Feature]) -> Iterator[Violation]:
    """Images are refused by the rule of models that do not use them."""
    if not isinstance(model, TreesModel):
        return
    for name, feature in features.items():
        if isinstance(feature, TextFeature | TextEmbeddingFeature):
            what = "`kind: trees` takes numbers and single categories, not the words of a text"
            yield ("features", name, "column"), f"{what}; remove the feature, or use another kind of model"
        elif getattr(feature, "multivalued", False):
            what = "`kind: trees` takes one category per example; use the first value only (`multivalued: false`)"
            yield ("features", name, "multivalued"), f"{what}, or another kind of model"


def trees_have_no_layers(model: ModelConfig) -> Iterator[Violation]:
    if isinstance(model, TreesModel):
        for name in _changed(model, frozenset(TreesModel.model_fields) - set(ModelBase.model_fields)):
            yield (
                ("model", name),
                f"`kind: trees` has no dense layers or embeddings, so `{name}` does nothing; remove it",
            )


def trees_have_no_steps(model: ModelConfig, train: TrainConfig) -> Iterator[Violation]:
    if not isinstance(model, TreesModel):
        return
    for name in _changed(train, APPLIES):
        yield _ignored(("train", name), INSTEAD.get(name, "remove it"))
    for name in _changed(train.input, READING):
        yield _ignored(("train", "input", name), "remove it")
    if train.checkpoint.every_steps not in (CheckpointConfig().every_steps, None):
        way = "remove it, or set it to null for none but on SIGTERM"
        what = "with `model.kind: trees`, which has no batches, a checkpoint is written every minute"
        yield ("train", "checkpoint", "every_steps"), f"{what}; {way}"
    if train.strategy not in STRATEGIES:
        what = f"`model.kind: trees` is grown on the processors of one machine, not with `{train.strategy}`"
        yield ("train", "strategy"), f"{what}; use `auto` or `cpu`"


def trees_are_not_tuned(model: ModelConfig, tune: TuneConfig | None) -> Iterator[Violation]:
    if isinstance(model, TreesModel) and tune is not None:
        yield ("tune",), "a search trains with steps, and `model.kind: trees` has none; remove `tune`"


def why_no_trees(label: LabelConfig, features: dict[str, Feature], train: TrainConfig) -> str:
    """Why trees are not among the candidates of `kind: auto`: what a config with `kind: trees` would be refused for.

    Empty if they are. The interval of checkpoints, which changes no result, does not count.
    """
    sections = {"model": TreesModel(kind="trees"), "label": label, "features": features, "train": train}
    rules = trees_have_a_label, trees_have_single_values, trees_have_no_layers, trees_have_no_steps
    found = [(where, what) for where, what in apply_rules(rules, sections) if where[:2] != CHECKPOINT]
    return "; ".join(f"{'.'.join(map(str, where))}: {what.partition(';')[0]}" for where, what in found)


def _changed(section: BaseModel, apply: frozenset[str]) -> Iterator[str]:
    """The settings, other than those that apply, whose values are not the defaults."""
    for name, field in type(section).model_fields.items():
        if name not in apply and name != "kind" and getattr(section, name) != field.default:
            yield name


def _ignored(where: KeyPath, way: str) -> Violation:
    return where, f"`model.kind: trees` has no steps or layers, so it would ignore `{'.'.join(map(str, where))}`; {way}"
