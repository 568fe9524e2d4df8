"""`model: {kind: auto}`: a short search for the kind of model with the lowest eval loss, before the training."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.models import DcnModel, DnnModel, LinearModel, ModelBase, TabmModel, WideAndDeepModel

Candidate = Literal["linear", "wide_and_deep", "dnn", "dcn", "tabm", "periodic_tabm"]
_CLASSES: dict[str, type[ModelBase]] = {
    "linear": LinearModel,
    "wide_and_deep": WideAndDeepModel,
    "dnn": DnnModel,
    "dcn": DcnModel,
    "tabm": TabmModel,
    "periodic_tabm": TabmModel,
}
_SETTINGS: dict[str, dict[str, Any]] = {"periodic_tabm": {"kind": "tabm", "frequencies": 16}}
"""What a candidate's `model:` section says besides the settings that all share, if that is not just its kind."""


class AutoModel(ModelBase):
    """The candidate with the lowest eval loss in a short search. The search trains all of them on the same examples,
    keeps the better half of those that need more time than it has, and the training continues with the best one. The
    candidates share `hidden`, `activation`, `dropout` and `embedding`; their other settings are the defaults.
    """

    implementation: ClassVar[str] = "headrace.trainer.model_search.search.train_best"
    has_wide_part: ClassVar[bool] = True

    kind: Literal["auto"]
    """`auto`."""
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120.0
    """Time for the search, in seconds. It ends earlier if all candidates are trained to their end, and then the choice
    does not depend on the speed of the machine. The training of the best candidate may take longer."""
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=2)] = (
        "linear",
        "wide_and_deep",
        "tabm",
        "periodic_tabm",
    )
    """The kinds to try; of equal ones, the first is taken. `periodic_tabm` is `tabm` with `frequencies: 16`."""

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

    def settings(self, candidate: str) -> dict[str, Any]:
        """The `model:` section of a candidate, without the settings that all of them share."""
        return _SETTINGS.get(candidate, {"kind": candidate})

    def model(self, candidate: str) -> ModelBase:
        """The settings of a candidate."""
        shared = {name: getattr(self, name) for name in ModelBase.model_fields}
        return _CLASSES[candidate].model_validate({**shared, **self.settings(candidate)})
