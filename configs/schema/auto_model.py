"""`model: {kind: auto}`: a short search for the kind of model with the lowest eval loss, before the training."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.models import DcnModel, DnnModel, LinearModel, ModelBase, TabmModel, WideAndDeepModel
from headrace.configs.schema.trees_model import TreesModel

Candidate = Literal["linear", "trees", "wide_and_deep", "dnn", "dcn", "tabm", "periodic_tabm"]
_CLASSES: dict[str, type[ModelBase]] = {
    "linear": LinearModel,
    "trees": TreesModel,
    "wide_and_deep": WideAndDeepModel,
    "dnn": DnnModel,
    "dcn": DcnModel,
    "tabm": TabmModel,
    "periodic_tabm": TabmModel,
}
"""The cheapest to train first."""
_SETTINGS: dict[str, dict[str, Any]] = {"periodic_tabm": {"kind": "tabm", "frequencies": 16}}
"""What a candidate's `model:` section says besides the settings that all share, if that is not just its kind."""


class AutoModel(ModelBase):
    """The best candidate in a short search. The search trains all of them on the same examples, keeps the better half
    of those that need more time than it has, and the training continues with the one whose eval loss is the lowest, or
    within its noise (see docs/model_kinds.md). The candidates share `hidden`, `activation`, `dropout` and `embedding`,
    which do not apply to `linear` and `trees`; their other settings are the defaults.
    """

    implementation: ClassVar[str] = "headrace.trainer.model_search.search.train_best"
    has_wide_part: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})

    kind: Literal["auto"]
    """`auto`."""
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120.0
    """Time for the search, in seconds. It ends earlier if all candidates are trained to their end, and then the choice
    does not depend on the speed of the machine. The training of the best candidate may take longer."""
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=2)] = (
        "tabm",
        "linear",
        "trees",
        "wide_and_deep",
        "periodic_tabm",
    )
    """The kinds to try. Of those whose eval losses do not differ by more than noise, the first is taken; the cheapest
    are tried first. `periodic_tabm` is `tabm` with `frequencies: 16`. `trees` is left out, and the report says why,
    where a config with `kind: trees` would be refused, such as for a text, `train.epochs` or `train.batch_size`."""

    @model_validator(mode="after")
    def _candidates_differ(self) -> AutoModel:
        twice = [name for number, name in enumerate(self.candidates) if name in self.candidates[:number]]
        if twice:
            raise ValueError(f"candidates: `{twice[0]}` is listed twice; remove one")
        return self

    def own_modules(self) -> list[str]:
        kinds = [_CLASSES[name] for name in self.candidates]
        modules = [f"{type(self).__module__}", *(kind.implementation.rpartition(".")[0] for kind in kinds)]
        return list(dict.fromkeys([*super().own_modules(), *modules]))

    def libraries(self) -> list[str]:
        return sorted({name for candidate in self.candidates for name in self.model(candidate).libraries()})

    @property
    def cheapest_first(self) -> list[str]:
        """The candidates in the order in which they are tried."""
        return [name for name in _CLASSES if name in self.candidates]

    def settings(self, candidate: str) -> dict[str, Any]:
        """The `model:` section of a candidate, without the settings that all of them share."""
        return _SETTINGS.get(candidate, {"kind": candidate})

    def model(self, candidate: str) -> ModelBase:
        """The settings of a candidate."""
        shared = {name: getattr(self, name) for name in ModelBase.model_fields}
        of_layers = {} if _CLASSES[candidate].has_trees else shared
        return _CLASSES[candidate].model_validate({**of_layers, **self.settings(candidate)})

    def model_of_kind(self, kind: str) -> ModelBase:
        """The settings of the first candidate of a kind. Several differ in settings that change no part of the model;
        these settings themselves, if none is of this kind.
        """
        found = (self.model(candidate) for candidate in self.candidates)
        return next((model for model in found if model.kind == kind), self)
