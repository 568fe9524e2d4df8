"""`model: {kind: table}`, the default: the kind of model for a table, by its number of examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from headrace.configs.schema.features.base import FeatureBase
from headrace.configs.schema.models import ModelBase, TabmModel, WideAndDeepModel
from headrace.configs.schema.train import TrainConfig

FEW_EXAMPLES = 100_000
"""Training examples up to which an ensemble trains within minutes on a few cores. A training takes several times as
long as that of one network. The number that is compared with it is an estimate if the files are larger than a few
megabytes."""


class TableModel(ModelBase):
    """`tabm`, or `wide_and_deep` for more than 100,000 training examples, which trains several times as fast. Also
    `wide_and_deep` if a feature has `deep: false`, as crosses have, which `tabm` would ignore; with `train.warm_start`,
    which needs the same kind every night; and with `train.input.own_shards`, with which no worker counts all examples.
    When training starts, the examples are counted, or estimated from the first megabytes if they are many: log and
    report say which kind it is. The default if `kind` is not set.
    """

    implementation: ClassVar[str] = TabmModel.implementation
    takes: ClassVar[frozenset[str]] = TabmModel.takes & WideAndDeepModel.takes
    has_wide_part: ClassVar[bool] = True

    kind: Literal["table"] = "table"
    """`table`."""

    def own_modules(self) -> list[str]:
        of_kinds = [kind.implementation.rpartition(".")[0] for kind in (TabmModel, WideAndDeepModel)]
        return list(dict.fromkeys([*super().own_modules(), *of_kinds]))

    def is_always_wide(self, features: Mapping[str, FeatureBase], train: TrainConfig) -> bool:
        """Whether it is `wide_and_deep` whatever the number of examples."""
        only_wide = any(not getattr(feature, "deep", True) for feature in features.values())
        return only_wide or train.warm_start or train.input.own_shards

    def description(self, features: Mapping[str, FeatureBase], train: TrainConfig) -> str:
        """What it is, before the number of examples is known."""
        if self.is_always_wide(features, train):
            return "wide_and_deep"
        return f"tabm, or wide_and_deep for more than {FEW_EXAMPLES:,} training examples"

    def for_table(self, examples: int, features: Mapping[str, FeatureBase], train: TrainConfig) -> ModelBase:
        """The settings of the kind that is trained. examples: of the train split; 0 if unknown."""
        shared = {name: getattr(self, name) for name in ModelBase.model_fields}
        if examples > FEW_EXAMPLES or self.is_always_wide(features, train):
            return WideAndDeepModel.model_validate({**shared, "kind": "wide_and_deep"})
        return TabmModel.model_validate({**shared, "kind": "tabm"})
